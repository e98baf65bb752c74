# Supervisor of one container: removes it, with its volumes, when the owner is gone.
#
# Argument: the container's name.
# Standard input: held open by the owner. Its end means that the owner is gone; the line `detach` lets go of it.
set -u
name=$1
trap : HUP INT
while read -r word; do [ "$word" = detach ] && exit 0; done
# The engine may still be creating the container when its owner dies.
tries=20
while [ $tries -gt 0 ]; do
  if docker container inspect "$name"; then
    docker unpause "$name"
    docker rm --force --volumes "$name" && exit 0
  fi
  sleep 0.2
  tries=$((tries - 1))
done
