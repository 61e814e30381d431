-- Writes a note that is still at a version (0: there is none), and gives whether it did, and the
-- note as it is then. A new version is at least the time: so a note that the server has forgotten
-- never has one again that it had before, as long as the clock goes on.
--
-- KEYS: the note, the names of all notes.
local n = redis.call('HMGET', KEYS[1], 'version', 'text', 'at')
if (n[1] or '0') ~= ARGV[3] then return {'0', n[1] or '0', n[2] or '', n[3] or ''} end
local version = num(math.max((n[1] or 0) + 1, now))
redis.call('HSET', KEYS[1], 'version', version, 'text', ARGV[4], 'at', num(now))
redis.call('SADD', KEYS[2], ARGV[2])
return {'1', version, ARGV[4], num(now)}
