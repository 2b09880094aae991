/* watch: how long a rank has waited, counted while its process was awake.
 *
 * A job may be suspended as a whole, and nobody was late then.  A process that was stopped sees the
 * clock jump between two looks at it, so between two looks only so much counts.  Whoever waits looks
 * at its watch more often than that. */
#ifndef RESHARD_COMM_WATCH_H
#define RESHARD_COMM_WATCH_H

/* All zero: not started. */
typedef struct rshi_watch {
    double last;   /* rshi_seconds at the last look; 0: not started */
    double waited; /* seconds */
} rshi_watch;

#define RSHI_WATCH_STEP 0.25 /* seconds that count between two looks, at most; several naps */

/* Seconds waited so far, of which at most `most` count since the last look; the first look starts
 * the watch and gives 0. */
double rshi_watch_look(rshi_watch *w, double most);

#endif
