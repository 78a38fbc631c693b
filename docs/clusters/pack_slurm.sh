#!/bin/bash
# Packs /shared/train into /shared/train.stk with eight jobs, then merges. Submit both:
#   job=$(sbatch --parsable pack_slurm.sh)
#   sbatch --array=0 --dependency=afterok:$job pack_slurm.sh merge
# A part that was killed is resumed when its job runs again: scontrol requeue JOB_INDEX.
#SBATCH --job-name=stoker-pack
#SBATCH --array=0-7
#SBATCH --cpus-per-task=16
#SBATCH --requeue
set -euo pipefail
parts=8

if [ "${1:-}" = merge ]; then
    stoker pack --merge /shared/train.stk
else
    stoker pack /shared/train /shared/train.stk --codec dct --part "$SLURM_ARRAY_TASK_ID/$parts"
fi
