import { describe, expect, it } from 'vitest'
import { RefusedRequests, requestName } from '../../src/core/overload/refused-requests.ts'

const utf8 = new TextEncoder()
const nameOf = (body: string): string => requestName(['key'], utf8.encode(body))

describe('the name of a request', () => {
  it('the name of a request is another one for each changed, added or removed byte', () => {
    const body = '{"prompt":"Hello"}'
    const bodies = [body, ...Array.from(body, (_, at) => `${body.slice(0, at)}~${body.slice(at + 1)}`)]
    for (let length = 0; length < body.length; length++) bodies.push(body.slice(0, length))
    for (const added of ['\0', '\0\0\0', ' ', '    ']) bodies.push(body + added)
    expect(new Set(bodies.map(nameOf)).size).toBe(bodies.length)
  })

  it('the name of a request does not depend on where the body lies in memory', () => {
    const whole = utf8.encode('xxx{"prompt":"Hello"}yyy')
    for (let from = 0; from < 4; from++) {
      const moved = new Uint8Array(64)
      moved.set(whole.subarray(3, 21), from)
      expect(requestName(['key'], moved.subarray(from, from + 18))).toBe(nameOf('{"prompt":"Hello"}'))
    }
  })

  it('the name of a request separates its parts', () => {
    expect(requestName(['a', 'b'], new Uint8Array())).not.toBe(requestName(['a","b'], new Uint8Array()))
  })
})

describe('remembered refusals', () => {
  it('remembered refusals are at most 10,000, the latest', () => {
    const refused = new RefusedRequests()
    for (let at = 0; at <= 10_000; at++) refused.refused(`r${at}`, 1_000, 0)
    expect([refused.retryAfterMs('r0', 1), refused.retryAfterMs('r1', 1)]).toEqual([null, 999])
  })

  it('remembered refusals are quiet before the first one and 100 ms after the last one', () => {
    const refused = new RefusedRequests()
    expect(refused.isQuiet(0)).toBe(true)
    refused.refused('r', 1_000, 50)
    expect([refused.isQuiet(49), refused.isQuiet(50), refused.isQuiet(149), refused.isQuiet(150)]).toEqual([
      true,
      false,
      false,
      true,
    ])
  })
})
