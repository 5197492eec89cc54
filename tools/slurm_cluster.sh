#!/usr/bin/env bash
# Run a local Slurm cluster on this machine, for testing jobs: slurm_cluster.sh start|stop [FOLDER]
# Needs Debian's slurm-wlm and munge; does not use their services. Its commands find it by the variable that "start" prints:
#   eval "$(tools/slurm_cluster.sh start)"; sbatch job.sh; tools/slurm_cluster.sh stop
set -euo pipefail
[[ ${1:-} == start || ${1:-} == stop ]] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
folder=$(realpath -m "${2:-${TMPDIR:-/tmp}/slurm-$(id -un)}")
export SLURM_CONF=$folder/slurm.conf

start() {
  for program in munged slurmctld slurmd; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "$program: not found; apt-get install slurm-wlm munge" >&2; exit 1; }
  done
  export PATH=$PATH:/usr/sbin
  mkdir -p "$folder"/{munge,state,spool}
  chmod 700 "$folder/munge"
  head -c 1024 /dev/urandom > "$folder/munge/key"
  chmod 600 "$folder/munge/key"
  munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" --num-threads=2
  write_configuration > "$SLURM_CONF"
  slurmctld
  slurmd -f "$SLURM_CONF" -N "$(hostname -s)"
  for _ in {1..60}; do
    [[ $(sinfo --noheader --format=%t 2>/dev/null) == idle ]] && { echo "export SLURM_CONF=$SLURM_CONF"; return; }
    sleep 0.5
  done
  tail -n 5 "$folder"/slurm*.log >&2
  echo "No node started: see the logs in $folder." >&2
  exit 1
}

write_configuration() {
  local user port
  user=$(id -un)
  port=$(( 20000 + $$ % 20000 ))
  cat <<EOF
ClusterName=one
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$(( port + 1 ))
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=5
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
}

stop() {
  [[ -f $SLURM_CONF ]] || return 0
  scancel --user="$(id -un)" 2>/dev/null || true
  for pid in "$folder"/slurmd.pid "$folder"/slurmctld.pid "$folder"/munge/pid; do
    [[ -f $pid ]] || continue
    local process
    process=$(<"$pid")
    kill "$process" 2>/dev/null || continue
    for _ in {1..50}; do kill -0 "$process" 2>/dev/null || break; sleep 0.1; done
  done
  rm -rf "$folder"
}

"$1"
