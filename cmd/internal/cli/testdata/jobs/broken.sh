#!/bin/sh
# what is nearly UTF-8: overlong, a surrogate, beyond the last character, cut off, and half a character at the end
printf 'a\300\257b\340\200\257c\355\240\200d\364\220\200\200e\342\202 f\200\277g \360\237\230\200\n\xef\xbb\xbf\360\237'
