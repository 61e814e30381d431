-- Records how far a lease's attempt has come. 0: it isn't this owner's any more.
--
-- KEYS: the lock, the run, the attempt's output.
local l = redis.call('HMGET', KEYS[1], 'owner', 'token', 'run', 'attempt')
if l[1] ~= ARGV[2] or l[2] ~= ARGV[3] or l[3] ~= ARGV[4] or l[4] ~= ARGV[5] then return 0 end
local r = redis.call('HMGET', KEYS[2], 'status', 'attempt', 'owner', 'c' .. ARGV[5])
if r[1] ~= 'RUNNING' or r[2] ~= ARGV[5] or r[3] ~= ARGV[2] then return 0 end
local processed, failed = string.match(r[4] or '- -', '^(%S+) (%S+)$')
if ARGV[6] ~= '' then processed = ARGV[6] end
if ARGV[7] ~= '' then failed = ARGV[7] end
redis.call('HSET', KEYS[2], 'c' .. ARGV[5], processed .. ' ' .. failed)
if ARGV[8] ~= '' then redis.call('HSET', KEYS[3], 'about', ARGV[8], 'text', ARGV[9], 'at', num(now)) end
return 1
