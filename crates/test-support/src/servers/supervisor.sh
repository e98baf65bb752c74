# Supervisor of one throwaway server: owns its directory, its process and their end.
#
# Arguments: a name, then folders in which a private directory may be made; the first that works is taken.
# Standard output: one line, the directory.
# Standard input: held open by the owner. Its end means that the owner is gone; the line `detach` lets go of it.
# Files in the directory:
#   server.sh   what to start (ends in exec)      sidecar.sh  what to start once before it (optional)
#   server.pid  while it runs                     server.exit its status once it has ended
#   server.log  its output                        soft-quit   present: try SIGQUIT before SIGKILL
#   control     a pipe for the words start and quit (and the watcher's detached)
set -u
umask 077
name=$1
shift
directory=
for folder; do
  directory=$(mktemp -d "$folder/test-servers-$name-XXXXXX" 2>/dev/null) && break
done
[ -n "$directory" ] && cd "$directory" && mkfifo control || exit 1
exec 4<&0 3<>control </dev/null 2>/dev/null
# Only now: whoever reads it may write to the pipe at once.
echo "$directory"
exec >/dev/null
# Descriptors that an ancestor forgot to close must not be kept open by a server.
exec 5>&- 6>&- 7>&- 8>&- 9>&-

running=yes
trap 'running=' TERM
trap : HUP INT

(
  trap : HUP INT
  while read -r word <&4; do
    if [ "$word" = detach ]; then
      echo detached >&3
      exit
    fi
  done
  echo quit >&3
) &
watcher=$!
exec 4<&-

alive() { [ -s server.pid ] && kill -0 "$(cat server.pid)"; }

start() {
  alive && return
  if [ -f sidecar.sh ] && ! { [ -n "${sidecar:-}" ] && kill -0 "$sidecar"; }; then
    sh ./sidecar.sh >>sidecar.log 2>&1 3>&- &
    sidecar=$!
  fi
  rm -f server.exit
  # A subshell waits for the server, so that an ended one is neither a zombie nor a stale pid file.
  (
    sh ./server.sh >>server.log 2>&1 3>&- &
    server=$!
    echo $server >server.pid.new && mv server.pid.new server.pid
    wait $server
    echo $? >server.exit.new && mv server.exit.new server.exit
    rm -f server.pid
  ) &
}

# Prints a line `pid parent` for each process of the machine.
processes() {
  if [ -r /proc/self/stat ]; then
    for stat in /proc/[0-9]*/stat; do
      read -r line <"$stat" || continue
      pid=${stat#/proc/}
      # The name in parentheses may hold blanks: what follows it is state and parent.
      set -- ${line##*) }
      echo "${pid%/stat} $2"
    done
  else
    ps -A -o pid= -o ppid=
  fi
}

# Prints a process and all that descend from it.
tree() {
  echo "$1"
  echo "$table" | while read -r pid parent; do
    if [ "$parent" = "$1" ]; then tree "$pid"; fi
  done
}

stop() {
  alive || return
  pid=$(cat server.pid)
  table=$(processes)
  all=$(tree "$pid")
  if [ -f soft-quit ]; then
    kill -QUIT "$pid"
    kill -CONT $all
    tries=80
    while [ $tries -gt 0 ] && alive; do
      sleep 0.1
      tries=$((tries - 1))
    done
    alive || return
    table=$(processes)
    all=$(tree "$pid")
  fi
  kill -KILL $all
}

while [ -n "$running" ]; do
  word=
  read -r word <&3
  case $word in
    start) start ;;
    quit) running= ;;
    detached)
      wait "$watcher"
      watcher=
      ;;
  esac
done

stop
[ -n "${sidecar:-}" ] && kill -KILL "$sidecar"
[ -n "$watcher" ] && kill "$watcher"
cd /
tries=20
while [ $tries -gt 0 ] && ! rm -rf "$directory"; do
  sleep 0.1
  tries=$((tries - 1))
done
