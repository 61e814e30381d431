#!/bin/sh
# UTF-16 with its mark, both ways round
printf '\377\376o\000k\000\n\000\376\377\000o\000k\000\n'
