#!/bin/sh
# Ten jobs of SLURM carry out a share each of an experiment: sbatch examples/cluster/slurm.sh FILE.
# A job that was killed is submitted again as it was (sbatch --array=4 ...); when all are over:
# cwndlab data merge results/NAME-shard-*
#SBATCH --job-name=cwndlab
#SBATCH --array=1-10
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=01:00:00
#SBATCH --output=cwndlab-%A-%a.log
set -eu
cwndlab run "$1" --shard "$SLURM_ARRAY_TASK_ID/10" --jobs 1 --quiet
