#!/bin/sh
# a byte at a time, on both
i=0
while test $i -lt 500; do
	printf '\303'
	printf '\200' >&2
	i=$((i + 1))
done
