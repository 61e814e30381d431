#!/bin/sh
# NULs alone, more than what is kept, which are longer when they are escaped
head -c 200000 /dev/zero
head -c 300000 /dev/zero >&2
