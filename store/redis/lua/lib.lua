-- A text, where the server has said that there is none.
local function text(v) return v or '' end

-- A hash as a table.
local function hash(key)
  local flat, t = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do t[flat[i]] = flat[i + 1] end
  return t
end

-- What is to be written is put down first, and done when all is decided: where a read fails
-- nothing has been written, and a claim that only asks writes nothing.
local writes = {}
local function put(...) writes[#writes + 1] = {...} end
local function flush()
  for i = 1, #writes do
    if type(writes[i][1]) == 'function' then writes[i][1]() else redis.call(unpack(writes[i])) end
  end
end

-- When the next execution after a failed one is due: Policy.NextRetry of the library. policy
-- is 'retries least most lost'. nil: there is none.
local function next_retry(policy, failures, reason, jitter)
  if reason == 'not_found' or reason == 'not_executable' or reason == 'stopped' or reason == 'lease_lost' then return nil end
  local retries, least, most, lost = string.match(policy or '', '^(%S+) (%S+) (%S+) (%S+)')
  retries, least, most = tonumber(retries) or 0, tonumber(least) or 0, tonumber(most) or 0
  if reason == 'lease_expired' and lost ~= '1' or failures < 1 or failures > retries then return nil end
  most = math.max(most, least)
  local wait, i = least, 1
  while i < failures and wait < most and wait > 0 do
    if wait > most / 2 then wait = most else wait = wait * 2 end
    i = i + 1
  end
  local half = math.floor(wait / 2)
  wait = math.max(least, half + math.floor(jitter * half))
  return now + math.min(wait, most)
end

-- Ends the last attempt of a run, and with it the run. r is the run, which is changed as it
-- will be; o has status, reason, void, finished and its own text. Of an unkeyed run nothing
-- is executed again.
local function close(id, r, o, jitter)
  local run, retry = P .. 'run:' .. id, nil
  local sets = {'HSET', run, 'status', o.status, 'e' .. r.attempt, o.text, 'v', num((tonumber(r.v) or 0) + 1)}
  local function set(field, value)
    r[field] = value
    sets[#sets + 1], sets[#sets + 2] = field, value
  end
  r.status, r['e' .. r.attempt] = o.status, o.text
  set('finished', o.finished ~= '' and o.finished or num(now))
  if o.status == 'FAILED' then
    local failures = (tonumber(r.fails) or 0)
    if not o.void then
      failures = failures + 1
      set('fails', num(failures))
    end
    if r.part and r.part ~= '' then
      if o.void then retry = now else retry = next_retry(r.policy, failures, o.reason, jitter) end
    end
  end
  if retry then
    set('retry', num(retry))
    put('ZADD', P .. 'z:RETRY', num(retry), id)
  end
  put('ZADD', P .. 'z:' .. o.status, r.started, id)
  put('ZADD', P .. 'z:' .. o.status .. ':' .. r.job, r.started, id)
  put('ZREM', P .. 'z:RUNNING', id)
  put(unpack(sets))
end

-- Frees a lock. Its token stays: the next one is greater.
local function free(lock, alone)
  if alone then put('SREM', P .. 'alone', lock) else put('HDEL', P .. 'dir', 'l:' .. lock) end
  put('HSET', P .. 'lock:' .. lock, 'owner', '')
end
