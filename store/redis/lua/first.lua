-- A claim, decided in one step: what is known is settled, then the claim table of the library
-- (see Decide there) is applied, and what follows is written down. The answer begins with
--
--	granted   adopted if an earlier claim of the same owner had won already
--	refused   reason, holder, the time of a retry, and how often this was recorded
--	usage     it is malformed
--	schema    the namespace is of a later version of this program, or of none
--
-- KEYS: the directory, the lock, the run that a first attempt makes, the runs that are RUNNING,
-- the refusals, the jobs, the locks without a run. Derived: what the directory and the lock
-- name, that is the key's run if there is one, the lock that it holds, the run that holds the
-- lock, and the lists in which these stand.
local ns, mode, version, job, part, lock = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local owner, rid, ttl, crash, policy, two = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local begun, worker = ARGV[17], ARGV[18]
local dry = mode == 'explain'
local key = part ~= '' and job .. ':' .. part or ''
local d = redis.call('HMGET', KEYS[1], 'v', 'k:' .. key, 'j:' .. job, 'l:' .. lock)
if d[1] and not (string.match(d[1], '^%d+$') and tonumber(d[1]) <= tonumber(version)) then return {'schema', d[1]} end

-- Row 8 for a run that isn't there yet. token is the lock's last. What counts is written last: a
-- user that may not do all of it leaves nothing behind that stands in anybody's way.
local function first_attempt(token, closed)
  token = num(math.max(tonumber(token) + 1, math.floor(now / 1000)))
  local run, at, exp = KEYS[3], num(now), num(now + ttl)
  local f = {'HSET', run, 'status', 'RUNNING', 'attempt', '1', 'lock', lock, 'token', token, 'owner', owner, 'started', at, 'policy', policy,
    'job', job, 'a1', begun, 'w1', worker}
  if part ~= '' then f[#f + 1] = 'part' f[#f + 1] = part end
  if ARGV[15] ~= '' then f[#f + 1] = 'date' f[#f + 1] = ARGV[15] end
  if ARGV[16] ~= '' then f[#f + 1] = 'sched' f[#f + 1] = ARGV[16] end
  if two == '1' then f[#f + 1] = 'two_from' f[#f + 1] = '1' end
  if not d[3] then redis.call('SADD', KEYS[6], job) end
  redis.call('ZADD', KEYS[4], at, rid)
  redis.call(unpack(f))
  f = {'HSET', KEYS[1], 'l:' .. lock, rid}
  if not d[1] then f[#f + 1] = 'v' f[#f + 1] = version end
  if part ~= '' then f[#f + 1] = 'k:' .. key f[#f + 1] = rid end
  if not d[3] then
    f[#f + 1] = 'j:' .. job
    f[#f + 1] = ''
  end
  redis.call(unpack(f))
  redis.call('HSET', KEYS[2], 'owner', owner, 'token', token, 'exp', exp, 'ttl', ttl, 'crash', crash, 'run', rid, 'attempt', '1', 'stop', '')
  local skips = 0
  if part ~= '' then
    for _, v in ipairs(redis.call('HVALS', KEYS[5])) do skips = skips + tonumber(string.match(v, '^%d+')) end
  end
  return {'granted', at, '0', token, ttl, rid, '1', '', false, num(skips), closed}
end

-- The common case, before all that it has no use for: nothing is known of the key, the lock is
-- free, and the job isn't paused.
if job ~= '' and not dry and ARGV[20] == '' and not d[2] and not d[4] and (not d[3] or d[3] == '') then
  local l = redis.call('HMGET', KEYS[2], 'owner', 'token')
  if (not l[1] or l[1] == '') and redis.call('EXISTS', KEYS[3]) == 0 then return first_attempt(l[2] or '0', {}) end
end
