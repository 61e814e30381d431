-- How often a key was refused, or an unkeyed run stood in another's way.
local function skips(id, r)
  local n, found = 0, nil
  if r.part then
    found = redis.call('HVALS', P .. 'skip:k:' .. r.job .. ':' .. r.part)
  else
    local by = id .. '/' .. r.attempt
    found = redis.call('HMGET', P .. 'skip:j:' .. r.job, 'running/' .. by, 'locked/' .. by, 'stale/' .. by)
  end
  for i = 1, 3 do
    if found[i] then n = n + tonumber(string.match(found[i], '^%d+')) end
  end
  for i = 4, #found do n = n + tonumber(string.match(found[i], '^%d+')) end
  return n
end

-- A run as it is read: its id, its fields, the end of its lease ('': there is none any more),
-- how often it was refused. nil: there is none.
local function seen(id)
  local flat, r = redis.call('HGETALL', P .. 'run:' .. id), {}
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
  local expires = ''
  if r.status == 'RUNNING' then
    local l = redis.call('HMGET', P .. 'lock:' .. r.lock, 'owner', 'run', 'attempt', 'exp')
    if l[1] == r.owner and l[2] == id and l[3] == r.attempt then expires = l[4] end
  end
  return {id, flat, expires, num(skips(id, r))}, r
end
