/* Schedule: computes the learning rate of a step. */
#include <math.h>

#include <reshard/nn/optim.h>

double rsh_schedule_lr(const rsh_schedule *s, int64_t step) {
    if (!s) return -1;
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)s->warmup;
    int64_t length = s->steps - s->warmup;
    if (s->decay == RSH_DECAY_NONE || length <= 0) return s->lr;
    double done = fmin(1, (double)(step - s->warmup) / (double)length);
    double left = s->decay == RSH_DECAY_COSINE ? (1 + cos(done * acos(-1))) / 2 : 1 - done;
    return s->lr * (s->least + (1 - s->least) * left);
}
