"""Scripts that Redis runs atomically. The first key is the store's prefix in braces."""

from __future__ import annotations

from typing import Final

ABSENT: Final = -1
"""The object does not exist."""
LOST: Final = -2
"""Some parts of the object are missing."""

PART: Final = """
local prefix, key, token = KEYS[1], ARGV[1], ARGV[2]
if redis.call('ZSCORE', prefix .. 'uploads', token .. key) == false then
  return 0
end
redis.call('SET', prefix .. 'part:' .. token .. ':' .. ARGV[3], ARGV[4])
return 1
"""
"""Add a part to an upload: key, token, number, bytes. Returns 0 if it was aborted meanwhile."""

COMMIT: Final = """
local prefix, key, token = KEYS[1], ARGV[1], ARGV[2]
local object = prefix .. 'object:' .. key
local there = redis.call('HGET', object, 'token')
if there then
  return there == token and 1 or 0
end
if redis.call('ZSCORE', prefix .. 'uploads', token .. key) == false then
  return -1
end
redis.call('HSET', object, 'token', token, 'size', ARGV[3], 'part', ARGV[4], 'parts', ARGV[5],
           'etag', ARGV[6], 'modified', ARGV[7])
redis.call('ZADD', prefix .. 'keys', 0, key)
redis.call('ZREM', prefix .. 'uploads', token .. key)
return 1
"""
"""Complete an upload: key, token, size, part size, number of parts, tag, time.

Returns 1 if this upload created the object, now or in an earlier attempt; 0 if another one exists;
-1 if the upload was aborted meanwhile."""

READ: Final = """
local prefix, key = KEYS[1], ARGV[1]
local start, length = tonumber(ARGV[2]), tonumber(ARGV[3])
local found = redis.call('HMGET', prefix .. 'object:' .. key, 'token', 'size', 'part')
if not found[1] then
  return {-1}
end
local size, part = tonumber(found[2]), tonumber(found[3])
if start < 0 then
  start = math.max(size + start, 0)
end
local stop = math.min(start + length, size)
local pieces = {size}
while start < stop do
  local number = math.floor(start / part)
  local first = start - number * part
  local last = math.min(stop - number * part, part) - 1
  local piece = redis.call('GETRANGE', prefix .. 'part:' .. found[1] .. ':' .. number, first, last)
  if #piece ~= last - first + 1 then
    return {-2}
  end
  table.insert(pieces, piece)
  start = start + #piece
end
return pieces
"""
"""Read bytes: key, start (from the end if negative), length. Returns the size and the pieces in
order, or ``ABSENT`` or ``LOST``."""

DELETE: Final = """
local prefix, key = KEYS[1], ARGV[1]
local object = prefix .. 'object:' .. key
local found = redis.call('HMGET', object, 'token', 'parts')
if found[1] then
  for number = 0, tonumber(found[2]) - 1 do
    redis.call('UNLINK', prefix .. 'part:' .. found[1] .. ':' .. number)
  end
  redis.call('DEL', object)
  redis.call('ZREM', prefix .. 'keys', key)
end
return 1
"""
"""Delete an object with its parts: key."""

ABORT: Final = """
local prefix, key, token = KEYS[1], ARGV[1], ARGV[2]
if redis.call('ZREM', prefix .. 'uploads', token .. key) == 0 then
  return 0
end
local number = 0
while redis.call('UNLINK', prefix .. 'part:' .. token .. ':' .. number) == 1 do
  number = number + 1
end
return 1
"""
"""Delete an unfinished upload with its parts: key, token. Returns 1 if it existed."""
