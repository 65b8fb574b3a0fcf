/* MPI_Allreduce as an application would call it: a barrier, then one timed call; the slowest rank counts; the median is
   printed. Arguments: sizes in bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++) {
        size_t size = strtoull(argv[i], NULL, 10);
        int iterations = (int)((256u << 20) / size);
        iterations = iterations < 10 ? 10 : iterations > 400 ? 400 : iterations;
        int warmup = iterations / 5 + 2;
        float *in = malloc(size), *out = malloc(size);
        double *times = malloc(sizeof(double) * iterations);
        memset(in, 0, size);
        memset(out, 0, size);
        for (int k = 0; k < warmup + iterations; k++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            MPI_Allreduce(in, out, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            double took = MPI_Wtime() - start, slowest;
            MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (k >= warmup) times[k - warmup] = slowest;
        }
        if (rank == 0) {
            qsort(times, iterations, sizeof(double), ascending);
            printf("%zu %.9f\n", size, times[iterations / 2]);
        }
        free(in);
        free(out);
        free(times);
    }
    MPI_Finalize();
    return 0;
}
