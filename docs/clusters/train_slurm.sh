#!/bin/bash
# Trains on four hosts with two ranks each. srun gives the ranks their numbers and the address of the first host. Two
# minutes before the time is over Slurm sends SIGTERM: the run leaves a checkpoint, and the job is requeued and resumes.
#SBATCH --job-name=stoker-train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -uo pipefail

srun --cpus-per-task=8 --kill-on-bad-exit=1 stoker train recipe.toml --out /shared/runs/a --resume auto
status=$?
# 143: ended by SIGTERM. A rank that fails makes srun end the others, so the number of times is limited.
if [ "$status" -eq 143 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 50 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
