-- Writes what was decided outside, if all that it was decided by is still so. 0: it isn't, and
-- nothing was written.
--
-- ARGV[2] is this program's version: where the namespace is of a later one, that is the answer.
-- ARGV[3] checks follow: each how many words, what is expected, and a command that gives it.
-- Then as many commands as are left, each how many words, and the words. KEYS: all that these
-- commands name. Derived: the directory.
local v = redis.call('HGET', P .. 'dir', 'v')
if v and not (string.match(v, '^%d+$') and tonumber(v) <= tonumber(ARGV[2])) then return v end
local i = 4
local function take()
  local n = tonumber(ARGV[i])
  local words = {unpack(ARGV, i + 1, i + n)}
  i = i + n + 1
  return words
end
for _ = 1, tonumber(ARGV[3]) do
  local c = take()
  local expected = table.remove(c, 1)
  local found = redis.call(unpack(c)) or ''
  if type(found) == 'number' then found = num(found) end
  if found ~= expected then return 0 end
end
while i <= #ARGV do put(unpack(take())) end
flush()
return 1
