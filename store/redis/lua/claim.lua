-- A claim that is not the common case; see first.lua.
local asking, jitter, who = mode == 'asking', tonumber(ARGV[14]), ARGV[19]
local know = ARGV[20] ~= '' and cjson.decode(ARGV[20]) or {}
local dead, held = know.dead or {}, know.held
local closed = {}

-- What a holder is told as: run, name, attempt, status, worker, since, detail, identity.
local function holder_of(id, r, detail)
  local since = r.started
  if r.status ~= 'RUNNING' and r.finished then since = r.finished end
  return {id, r.part and r.job .. ':' .. r.part or r.job, r.attempt, r.status, text(r['w' .. r.attempt]), since, detail or '', id .. '/' .. r.attempt}
end

-- A time in words, as Go's time.RFC3339 has it in UTC; the days by Howard Hinnant's
-- civil_from_days.
local function rfc3339(us)
  local s = math.floor(tonumber(us) / 1000000)
  local days = math.floor(s / 86400)
  local rest, z = s - days * 86400, days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02dZ', year, month, doy - math.floor((153 * mp + 2) / 5) + 1,
    math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60)
end

-- Appends to a run's own chain of events.
local function journal(id, r, event, reason, detail)
  local list = P .. 'ev:' .. id
  local e = {num(redis.call('HINCRBY', KEYS[1], 'seq', 1)), num(now), event, ns, r.job, r.part and r.job .. ':' .. r.part or '', id, '', '', reason, detail}
  local last = redis.call('LINDEX', list, -1)
  local parts = {last and cjson.decode(last)[12] or ''}
  for i = 1, #e do parts[#parts + 1] = e[i] end
  for i = 1, #parts do parts[i] = #parts[i] .. ':' .. parts[i] .. ',' end
  e[12] = sha256(table.concat(parts))
  redis.call('RPUSH', list, cjson.encode(e))
end

-- Why the claim of a lock's owner is over, as far as one can know: its host says that its work
-- is, or its lease is. nil: it isn't.
local function over(l)
  local d = dead[l.owner]
  if d and l.owner ~= know.owner then return d.evidence ~= '' and d.evidence or 'its owner is proven dead' end
  if tonumber(l.exp) <= now then
    return l.ghost and 'its lock has vanished from the store' or 'its lease ran out at ' .. rfc3339(l.exp)
  end
end

local function lock_at(key_of, name)
  local f = redis.call('HMGET', key_of, 'owner', 'token', 'exp', 'ttl', 'crash', 'run', 'attempt', 'acquired', 'worker', 'who')
  return {name = name, owner = text(f[1]), token = f[2] or '0', exp = f[3] or '0', ttl = f[4], crash = f[5], run = text(f[6]),
    attempt = f[7], acquired = f[8], worker = text(f[9]), who = text(f[10])}
end

-- What stands for the lock of a run that is RUNNING, when that has vanished. The run's owner is
-- told so by its next heartbeat, and has stopped when a lease's time has passed since somebody
-- noticed.
local function ghost_of(id, r)
  local gone = r.gone
  if not gone then
    gone = num(now)
    put('HSET', P .. 'run:' .. id, 'gone', gone)
  end
  local lasts, by = string.match(r.policy, ' (%d+) (%a+)$')
  return {name = r.lock, owner = r.owner, token = r.token, exp = num(gone + lasts), crash = by, run = id, attempt = r.attempt, ghost = true}
end

-- The run of a lock's owner, if that is at work under it.
local function run_of(l)
  if l.owner == '' or l.run == '' then return nil end
  local r = hash(P .. 'run:' .. l.run)
  if r.status == 'RUNNING' and r.owner == l.owner and r.attempt == l.attempt then return r end
end

-- Frees a lock whose owner's claim is over, and closes the owner's run, unless the owner's own
-- policy is manual; a start that came to nothing is closed whatever its policy. Who stands in
-- the way on the claim's host is not dead, and keeps what it has. A run that has vanished
-- keeps nothing.
local function settle(l, r)
  if l.owner == '' or l.owner == know.owner then return end
  local why, d = over(l), dead[l.owner]
  if not why then return end
  local void = d and d.void or false
  if not void and l.crash ~= 'auto' and (r or l.run == '') then return end
  if r then
    local reason = d and 'owner_died' or 'lease_expired'
    local words = d and d.error or l.ghost and 'its lock vanished from the store' or 'its lease ran out'
    local o = cjson.encode({status = 'FAILED', reason = reason, error = words, void = void, closed_by = 'machine'})
    close(l.run, r, {status = 'FAILED', reason = reason, void = void, finished = '', text = o}, jitter)
    put(function() journal(l.run, r, 'taken_over', reason, why) end)
    local flat = {} -- as it is now: the claim may begin the run anew
    for field, v in pairs(r) do
      flat[#flat + 1] = field
      flat[#flat + 1] = v
    end
    closed[#closed + 1] = {why, {l.run, flat, '', num(skips(l.run, r))}}
  end
  if l.ghost then put('HDEL', KEYS[1], 'l:' .. l.name) else free(l.name, l.run == '') end
  l.owner = ''
end

-- Answers a claim that is refused, having recorded that unless its caller asks again.
local function refuse(reason, h, retry)
  local count = 0
  if job ~= '' and not dry and not (asking and (reason == 'running' or reason == 'locked')) then
    local field = reason .. '/' .. h[8]
    local old, first = redis.call('HGET', KEYS[5], field), num(now)
    if old then count, first = string.match(old, '^(%d+) (%d+) ') end
    count = tonumber(count) + 1
    put('HSET', KEYS[5], field, num(count) .. ' ' .. first .. ' ' .. num(now) .. ' ' .. cjson.encode(h))
    if key == '' then put('SADD', P .. 'refused:j', job) else put('ZADD', P .. 'refused', num(now), key) end
  end
  if not dry then flush() end
  return {'refused', num(now), reason, cjson.encode(h), retry or '', num(count), closed}
end

local l = lock_at(KEYS[2], lock)
local mine = run_of(l)
if l.owner == '' and d[4] then
  local r = hash(P .. 'run:' .. d[4])
  if r.status == 'RUNNING' and r.lock == lock then l, mine = ghost_of(d[4], r), r end
end

-- A lost reply.
if owner ~= '' and l.owner == owner and not l.ghost and (mine or l.run == '') then
  if held then return refuse(know.stale and 'stale' or 'locked', held) end
  if l.run == '' and job ~= '' then return {'usage', 'its owner id holds the lock alone already, and an owner id is for one acquisition'} end
  if mine and (mine.job ~= job or text(mine.part) ~= part) then
    return {'usage', 'its owner id holds the lock for another run, and an owner id is for one acquisition'}
  end
  if dry then return {'granted'} end
  return {'granted', num(now), '1', l.token, l.ttl, l.run, text(l.attempt), text(l.acquired), mine and (seen(l.run)) or false, '0', closed}
end
if job ~= '' and redis.call('EXISTS', KEYS[3]) == 1 and (part == '' or d[2] ~= rid) then
  return {'usage', 'the run id ' .. rid .. ' is taken'}
end

-- The run of the key, or what is left of it.
local r, id, tomb, its
if part ~= '' and d[2] then
  if string.sub(d[2], 1, 1) == '!' then
    tomb = cjson.decode(string.sub(d[2], 2))
  else
    id = d[2]
    r = hash(P .. 'run:' .. id)
    if not r.status then r, id = nil, nil end
  end
end
if r and r.status == 'RUNNING' then
  its = r.lock == lock and l or lock_at(P .. 'lock:' .. r.lock, r.lock)
  if its.owner ~= r.owner or its.run ~= id or its.attempt ~= r.attempt then
    its = ghost_of(id, r)
  end
  settle(its, r)
end
if its ~= l then settle(l, mine) end

-- Rows 1 to 4.
local reason, h, approved = nil, nil, false
if r then
  if r.status == 'RUNNING' then
    local why = over(its)
    reason, h = why and 'stale' or 'running', holder_of(id, r, why)
  else
    local status, attempt, expires = string.match(text(r.approved), '^(%S+) (%S+) (%S+)$')
    approved = status == r.status and attempt == r.attempt and (expires == '-' or now < tonumber(expires))
    if not approved then
      if r.status == 'SUCCEEDED' then reason = 'succeeded' elseif r.status == 'SKIPPED' then reason = 'skipped' elseif not r.retry then reason = 'failed' end
      if reason then h = holder_of(id, r) end
    end
  end
elseif tomb then
  reason = string.lower(tomb.status)
  h = {tomb.run_id, key, tomb.attempt, tomb.status, '', tomb.finished ~= '' and tomb.finished or tomb.started,
    'its history was pruned on ' .. string.sub(rfc3339(tomb.pruned), 1, 10), tomb.run_id .. '/' .. tomb.attempt}
end
-- Row 5.
if not reason and d[3] and d[3] ~= '' then
  local p = cjson.decode(d[3])
  local words = 'paused by ' .. p.by .. ': ' .. p.reason
  reason, h = 'paused', {'', job, '0', '', '', p.at, words, words}
end
-- Row 6.
if not reason and r and r.retry and not approved and now < tonumber(r.retry) then
  return refuse('retry_not_due', holder_of(id, r), r.retry)
end
-- Row 7.
if not reason and (l.owner ~= '' or held) then
  local why = l.owner ~= '' and over(l)
  local here = held and (l.owner == '' or l.owner == know.owner)
  reason = (why or here and know.stale) and 'stale' or 'locked'
  local other = run_of(l)
  if other then
    h = holder_of(l.run, other, here and held[7] or why)
  elseif here then
    h = held
  else
    local words = why or 'owner ' .. l.owner
    h = {'', string.match(l.name, '/(.*)$') or l.name, '0', '', l.worker, text(l.acquired), words, l.who ~= '' and l.who or words}
  end
end
if reason then return refuse(reason, h) end
if dry then return {'granted'} end

-- Row 8.
local token = num(math.max(tonumber(l.token) + 1, math.floor(now / 1000)))
local exp, at = num(now + ttl), num(now)
if job == '' then
  put('HSET', KEYS[2], 'owner', owner, 'token', token, 'exp', exp, 'ttl', ttl, 'crash', crash, 'run', '', 'attempt', '', 'stop', '',
    'acquired', at, 'worker', worker, 'who', who)
  put('SADD', KEYS[7], lock)
  if not d[1] then put('HSET', KEYS[1], 'v', version) end
  flush()
  return {'granted', at, '0', token, ttl, '', '', at, false, '0', closed}
end
if not r then
  flush()
  return first_attempt(l.token, closed)
end
local number, run = num(r.attempt + 1), P .. 'run:' .. id
local f = {'HSET', run, 'status', 'RUNNING', 'attempt', number, 'lock', lock, 'token', token, 'owner', owner, 'started', at, 'policy', policy,
  'v', num((tonumber(r.v) or 0) + 1), 'a' .. number, begun, 'w' .. number, worker,
  'b' .. r.attempt, text(r.token) .. ' ' .. r.started .. ' ' .. text(r.finished)}
if two == '1' and not r.two_from then f[#f + 1] = 'two_from' f[#f + 1] = number end
-- What counts is last, as in first_attempt.
put('ZADD', KEYS[4], at, id)
put('ZREM', P .. 'z:' .. r.status, id)
put('ZREM', P .. 'z:' .. r.status .. ':' .. job, id)
if r.retry then put('ZREM', P .. 'z:RETRY', id) end
put('HSET', KEYS[1], 'l:' .. lock, id)
put('HDEL', run, 'finished', 'retry', 'gone')
if approved then
  f[#f + 1] = 'u' .. r.open
  f[#f + 1] = at .. ' ' .. number
  put('HDEL', run, 'approved', 'open')
end
put(unpack(f))
put('HSET', KEYS[2], 'owner', owner, 'token', token, 'exp', exp, 'ttl', ttl, 'crash', crash, 'run', id, 'attempt', number, 'stop', '')
flush()
return {'granted', at, '0', token, ttl, id, number, '', (seen(id)), '0', closed}
