-- Extends a lease, if it is still what its owner thinks, by its TTL from now. An empty answer:
-- it isn't. A late beat is safe, because every grant changes the owner. Nothing that has
-- vanished is made again.
--
-- KEYS: the lock, the run.
local l = redis.call('HMGET', KEYS[1], 'owner', 'token', 'run', 'attempt', 'ttl', 'stop')
if l[1] ~= ARGV[2] or l[2] ~= ARGV[3] or l[3] ~= ARGV[4] or l[4] ~= ARGV[5] then return {} end
if ARGV[4] ~= '' then
  local r = redis.call('HMGET', KEYS[2], 'status', 'attempt', 'owner')
  if r[1] ~= 'RUNNING' or r[2] ~= ARGV[5] or r[3] ~= ARGV[2] then return {} end
end
redis.call('HSET', KEYS[1], 'exp', num(now + l[5]))
return {num(now), l[6] or ""}
