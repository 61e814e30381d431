#!/bin/sh
# a very long line between short ones, line ends of all kinds, and none at the end
echo first
head -c 1500000 /dev/zero | tr '\0' y
printf '\nunix\nwindows\r\nmac\rlast'
