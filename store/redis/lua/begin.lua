-- What every script begins with. A script is decided in one piece, and by this server's clock.
-- ARGV[1] is what every key of the namespace begins with, its hash tag included: so what a
-- script derives from it lies where its KEYS lie.
local P = ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- A number in digits: tostring would round a time to 14 of them.
local function num(n) return string.format('%.0f', n) end
