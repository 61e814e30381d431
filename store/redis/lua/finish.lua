-- An end that is not the common case; see end.lua.
local reason, void, finished, jitter = ARGV[8], ARGV[9] == '1', ARGV[10], tonumber(ARGV[12])
if id == '' then
  if ours then
    free(lock, true)
    flush()
    return {'done'}
  end
  if l[1] == '' and l[2] == token then return {'already'} end
  return {'lost', '', l[1] and l[1] ~= '' and l[2] or ''}
end
if ours and f[1] == 'RUNNING' and f[2] == attempt and f[3] == owner then
  local r = {status = f[1], attempt = f[2], v = f[4], job = f[5], part = f[6] or nil, started = f[7], policy = f[8], fails = f[9] or nil}
  put('HDEL', P .. 'dir', 'l:' .. lock)
  close(id, r, {status = status, reason = reason, void = void, finished = finished, text = words}, jitter)
  put('HSET', KEYS[1], 'owner', '')
  if ARGV[13] ~= '' then put('HSET', KEYS[3], 'about', ARGV[13], 'text', ARGV[14], 'at', num(now)) end
  flush()
  return {'done'}
end
-- Done before, or too late?
local told = {'lost', '', l[1] and l[1] ~= '' and l[2] or ''}
local e = redis.call('HMGET', KEYS[2], 'a' .. attempt, 'e' .. attempt, 'b' .. attempt, 'token', 'attempt')
if e[1] and e[2] then
  local of = e[5] == attempt and e[4] or string.match(text(e[3]), '^(%S*)')
  local was = cjson.decode(e[2])
  told[2] = was.status
  if cjson.decode(e[1]).owner == owner and of == token and was.status == status and (was.reason or '') == reason then return {'already'} end
end
return told
