#!/bin/sh
# what a terminal would act on: a title, colours, a cleared screen, a bell, lines written over
printf '\033]0;title\007\033[2J\033[1;31mred\033[0m\rover\b\b\007\v\f\177\n\033Pq\033\\\233m'
