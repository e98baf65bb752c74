# Supervisor of one throwaway server: owns its directory, its process and their end.
#
# Arguments: a name, then folders in which a private directory may be made; the first that works is taken.
# Standard output: one line, the directory.
# Standard input: held open by the owner. Its end means that the owner is gone; the line `detach` lets go of it.
# Files in the directory:
#   server.sh   what to start (ends in exec)      sidecar.sh  what to start once before it (optional)
#   server.pid  while it runs                     server.exit its status once it has ended
#   server.log  its output                        soft-quit   names the file that begins with the server's number once
#               it can handle SIGQUIT, which is then tried before SIGKILL
#   control     a pipe for the words start and quit (and the watcher's detached)
set -u
umask 077
name=$1
shift
newline='
'
running=yes
trap 'running=' TERM
# PIPE: the owner may be gone before it has read the line.
trap : HUP INT PIPE

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

(
  trap : HUP INT PIPE
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
  # A quit that follows at once must find what to stop.
  until [ -s server.pid ] || [ -f server.exit ]; do sleep 0.01; done
}

# Prints a line `pid parent` for each process of the machine that lives.
processes() {
  if [ -r /proc/self/stat ]; then
    for stat in /proc/[0-9]*/stat; do
      read -r line <"$stat" || continue
      pid=${stat#/proc/}
      # The name in parentheses may hold blanks: what follows it is state and parent.
      set -- ${line##*) }
      [ "$1" = Z ] || echo "${pid%/stat} $2"
    done
  else
    ps -A -o pid= -o ppid= -o stat= | while read -r pid parent state; do
      case $state in Z*) ;; *) echo "$pid $parent" ;; esac
    done
  fi
}

# Prints a process and all that descend from it.
tree() {
  echo "$1"
  echo "$table" | while read -r pid parent; do
    if [ "$parent" = "$1" ]; then tree "$pid"; fi
  done
}

# True while one of $all lives.
any_lives() {
  table=$(processes)
  for pid in $all; do
    case "$newline$table" in *"$newline$pid "*) return 0 ;; esac
  done
  return 1
}

# Waits until all of $all are dead, for at most eight seconds.
await_end() {
  tries=80
  while [ $tries -gt 0 ] && any_lives; do
    sleep 0.1
    tries=$((tries - 1))
  done
}

stop() {
  alive || return
  server=$(cat server.pid)
  if [ -f soft-quit ]; then
    # What prepares the data would leave shared memory behind if it were killed: let it come to its end.
    tries=300
    while [ $tries -gt 0 ] && alive && [ "$(head -n 1 "$(cat soft-quit)")" != "$server" ]; do
      sleep 0.1
      tries=$((tries - 1))
    done
    kill -QUIT "$server"
    table=$(processes)
    all=$(tree "$server")
    kill -CONT $all
    await_end
    any_lives || return
  fi
  table=$(processes)
  all=$(tree "$server")
  kill -KILL $all
  await_end
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
if [ -n "${sidecar:-}" ]; then
  kill -KILL "$sidecar"
  wait "$sidecar"
fi
[ -n "$watcher" ] && kill "$watcher"
cd /
tries=20
while [ $tries -gt 0 ] && ! rm -rf "$directory"; do
  sleep 0.1
  tries=$((tries - 1))
done
