-- Records the end of a lease's attempt and frees the lock. The answer is done, already, or
-- lost with what is there instead.
--
-- KEYS: the lock, the run, the attempt's output, the runs that are RUNNING, the locks without a
-- run. Derived: the lists in which the ended run stands, and the lock's name.
local owner, token, id, attempt, lock = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local status, words = ARGV[7], ARGV[11]
local l = redis.call('HMGET', KEYS[1], 'owner', 'token', 'run', 'attempt')
local ours = l[1] == owner and l[2] == token and l[3] == id and l[4] == attempt
local f
if id ~= '' then
  f = redis.call('HMGET', KEYS[2], 'status', 'attempt', 'owner', 'v', 'job', 'part', 'started', 'policy', 'fails')
  -- The common case, before all that it has no use for: an end from which no retry follows. What
  -- counts is written last: where a user may not do all of it, it can be asked for again.
  if ours and status ~= 'FAILED' and f[1] == 'RUNNING' and f[2] == attempt and f[3] == owner then
    redis.call('ZADD', P .. 'z:' .. status, f[7], id)
    redis.call('ZADD', P .. 'z:' .. status .. ':' .. f[5], f[7], id)
    redis.call('ZREM', KEYS[4], id)
    redis.call('HDEL', P .. 'dir', 'l:' .. lock)
    if ARGV[13] ~= '' then redis.call('HSET', KEYS[3], 'about', ARGV[13], 'text', ARGV[14], 'at', num(now)) end
    redis.call('HSET', KEYS[2], 'status', status, 'e' .. attempt, words, 'v', num((f[4] or 0) + 1), 'finished', ARGV[10] ~= '' and ARGV[10] or num(now))
    redis.call('HSET', KEYS[1], 'owner', '')
    return {'done'}
  end
end
