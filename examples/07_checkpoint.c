/* Checkpoint: four ranks save a sharded tensor, and a job of three ranks loads it with another layout. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const name = "layers.0.weight";

typedef struct job {
    char path[64];
    rsh_digest saved; /* digest of the saved tensor; set by rank 0 of the first job */
} job;

/* Four ranks hold bands of rows. */
static rsh_status save(void *ctx, rsh_comm *comm) {
    job *j = ctx;
    rsh_layout *rows = NULL;
    rsh_sharded *weight = NULL;
    rsh_digest digest;
    rsh_status st = rsh_layout_parse("f32[512/x, 256] on x=4", &rows);
    if (!st) st = rsh_sharded_empty(comm, rows, &weight);
    if (!st) st = rsh_sharded_normal(weight, 7);
    if (!st) st = rsh_sharded_digest(weight, &digest);
    if (!st && !rsh_comm_rank(comm)) j->saved = digest;
    if (!st) st = rsh_ckpt_save(comm, j->path, 1, &name, (const rsh_sharded *const *)&weight, NULL);
    rsh_sharded_free(weight);
    rsh_layout_free(rows);
    return st;
}

/* Three ranks load bands of columns.  Each opens the checkpoint; every byte is read by one of them. */
static rsh_status load(void *ctx, rsh_comm *comm) {
    job *j = ctx;
    rsh_layout *columns = NULL;
    rsh_sharded *weight = NULL;
    rsh_ckpt *c = NULL;
    rsh_digest digest = {0, 0};
    rsh_status st = rsh_layout_parse("f32[512, 256/y~] on y=3", &columns);
    if (!st) st = rsh_sharded_empty(comm, columns, &weight);
    if (!st) st = rsh_ckpt_open(j->path, NULL, &c);
    if (!st) st = rsh_ckpt_load(c, comm, 1, &name, &weight, NULL);
    if (!st) st = rsh_sharded_digest(weight, &digest);
    if (!st && (digest.hi != j->saved.hi || digest.lo != j->saved.lo)) st = RSH_ERUNTIME;
    rsh_ckpt_free(c);
    rsh_sharded_free(weight);
    rsh_layout_free(columns);
    return st;
}

/* Reads only one row, without ranks. */
static rsh_status read_row(const job *j) {
    float row[256];
    rsh_box box = {{100, 0}, {101, 256}};
    rsh_ckpt *c = NULL;
    rsh_status st = rsh_ckpt_open(j->path, NULL, &c);
    if (!st) st = rsh_ckpt_read(c, rsh_ckpt_find(c, name), &box, &(rsh_memory){row, NULL});
    if (!st) printf("row 100 starts with %g\n", row[0]);
    rsh_ckpt_free(c);
    return st;
}

int main(void) {
    job j = {.path = "/tmp/reshard-example-XXXXXX"};
    char command[100];
    if (!mkdtemp(j.path)) return 1;
    snprintf(command, sizeof command, "rm -r %s", j.path);
    strcat(j.path, "/step-1000");
    rsh_status st = rsh_run(4, save, &j);
    if (!st) st = rsh_run(3, load, &j);
    if (!st) st = read_row(&j);
    puts(st ? rsh_error_detail() : "three ranks loaded what four saved");
    return system(command) || st != RSH_OK;
}
