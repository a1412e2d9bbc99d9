#!/bin/sh
# Builds the image's file system in a folder by the steps of the Dockerfile, without Docker: for a look at what it holds,
# or to run it confined. As root, on Debian or Ubuntu with debootstrap, after `npm ci`, from the repository's root:
#
#   sh docker/image-folder.sh /srv/image
#
# Run it read-only, without root and without capabilities (bubblewrap; /srv/data belongs to the user 1000):
#
#   setpriv --reuid 1000 --regid 1000 --clear-groups bwrap --ro-bind /srv/image / --proc /proc --dev /dev --tmpfs /tmp \
#     --bind /srv/data /data --unshare-user --unshare-pid --unshare-ipc --cap-drop ALL --clearenv \
#     --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv DATA_DIR /data --setenv DATABASE_URL postgresql://… \
#     --chdir /app sourcing-bridge service
set -eu
image=$1
packages=$(mktemp -d)
debootstrap --variant=minbase bookworm "$image"
install -D node_modules/node/bin/node "$image/usr/local/bin/node"
mkdir "$image/app"
cp package.json package-lock.json "$packages"
(cd "$packages" && npm ci --omit=dev --omit=optional --ignore-scripts)
npm run --silent build
cp -r dist/package/. "$image/app"
cp -r "$packages/node_modules" "$image/app"
chmod a+x "$image/app/src/cli/launch.js"
ln -s /app/src/cli/launch.js "$image/usr/local/bin/sourcing-bridge"
install --directory --owner=1000 --group=1000 --mode=0700 "$image/data" "$image/tls"
install --directory --owner=1000 --group=1000 --mode=0755 "$image/certificates"
rm -r "$packages"
