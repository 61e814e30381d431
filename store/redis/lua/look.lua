-- Runs as they are read, each at one moment with its lease, and for one that is RUNNING the
-- longest of its job's last successes, from which its stale-after is reckoned.
--
-- ARGV[2] is this program's version: of what a later one keeps nothing is told.
--
-- KEYS: the runs. Derived: the directory, their locks, refusals, and the last successes of their
-- jobs.
local v = redis.call('HGET', P .. 'dir', 'v')
if v and not (string.match(v, '^%d+$') and tonumber(v) <= tonumber(ARGV[2])) then return {'schema', v} end
local out, usual = {num(now)}, {}
for i = 3, #ARGV do
  local s, r = seen(ARGV[i])
  if s then
    s[5] = ''
    if r.status == 'RUNNING' then
      if not usual[r.job] then
        local longest = 0
        local ids = redis.call('ZREVRANGE', P .. 'z:SUCCEEDED:' .. r.job, 0, 49)
        for j = 1, #ids do
          local t = redis.call('HMGET', P .. 'run:' .. ids[j], 'started', 'finished')
          if t[1] and t[2] then longest = math.max(longest, t[2] - t[1]) end
        end
        usual[r.job] = num(longest)
      end
      s[5] = usual[r.job]
    end
    out[#out + 1] = s
  end
end
return out
