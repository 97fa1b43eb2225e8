import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  readEvents,
  readMessage,
  decodeAdmission,
  encodeAdmission,
} from '../../../src/platform/node/replicas/messages.ts'
import { admission } from '../../kit/pool-fixtures.ts'
import { documentedRights } from './member.ts'

const encoded = encodeAdmission(admission())
const placement = { kind: 'whole', engine: 'a' }
const rejected = (...events: readonly unknown[]): number => {
  let count = 0
  expect(readEvents(JSON.stringify(events), () => (count += 1))).toEqual([])
  return count
}

describe('events of other replicas', () => {
  it('events of other replicas are read as they were sent', () => {
    const events = [
      ['book', 64, encoded, placement],
      [
        'book',
        64,
        encoded,
        { kind: 'staged', encode: ['e'], prefill: null, decode: 'd' },
        { firstTokenSeen: true, outputBlocks: 3 },
      ],
      ['leg_done', 'k', 'prefill', { queue: -1 }, null],
      ['first_token', 'k', {}],
      ['release', 'k', { result: 'complete', usage: { promptTokens: 1, completionTokens: 2, cachedTokens: null } }],
      ['signal', { kind: 'drain', engine: 'a', draining: true }, 1],
    ]
    expect(readEvents(JSON.stringify(events), (error) => expect.unreachable(error.message))).toEqual(events)
  })

  it.each([
    [['book', 0, encoded, placement]],
    [['book', 64, { ...encoded, promptTokens: -1 }, placement]],
    [['book', 64, { ...encoded, promptTokens: 2 ** 41 }, placement]],
    [['book', 64, { ...encoded, attempt: 0.5 }, placement]],
    [['book', 64, { ...encoded, sequences: 0 }, placement]],
    [['book', 64, { ...encoded, hints: [{ engine: 'a', matchedTokens: 'x', tier: 'host' }] }, placement]],
    [['book', 64, encoded, { kind: 'split', prefill: 'a' }]],
    [['progress', 'k', null]],
    [['progress', 'k']],
    [['first_token', 'k', { ttft: 'NaN' }]],
    [['release', 'k', { result: 'won' }]],
    [['signal', { kind: 'probe', engine: 'a' }, 1]],
    [[7]],
    ['book'],
    [null],
  ])('events of other replicas are skipped and reported if they are invalid: %j', (event) => {
    expect(rejected(event)).toBe(1)
  })

  it('events of other replicas are skipped if a later version has invented them', () => {
    expect(rejected(['toString', 1], ['later', {}])).toBe(0)
    expect(rejected()).toBe(0)
    let count = 0
    for (const text of ['{}', '[', '"book"']) expect(readEvents(text, () => (count += 1))).toEqual([])
    expect(count).toBe(3)
  })

  it.each([
    ['default values', {}],
    [
      'other values',
      { configVersion: 7, adapter: 'lora', priority: -2, expectedOutputTokens: 30, encodeItems: 2, attempt: 1 },
    ],
    ['hints', { hints: [{ engine: 'a', matchedTokens: 64, tier: 'host' as const }] }],
    ['one block', { blocks: Uint32Array.of(1, 0xffff_ffff) }],
    ['no block', { blocks: new Uint32Array(0) }],
    ['many blocks', { blocks: Uint32Array.from({ length: 5_000 }, (_, at) => at * 858_993) }],
  ])('events of other replicas restore an admission with %s', (_what, changes) => {
    const made = admission({ blocks: Uint32Array.of(1, 2, 3, 4), ...changes })
    const text = JSON.stringify([
      ['book', 64, encodeAdmission({ ...made, tenant: 't', session: 's', avoid: ['b'] }), placement],
    ])
    const [event] = readEvents(text, (error) => expect.unreachable(error.message))
    if (event?.[0] !== 'book') throw new Error('a booking was sent')
    expect(decodeAdmission(event[2])).toEqual({ ...made, tenant: '', session: null, avoid: [] })
    for (const secret of ['tenant', 'session', 'avoid']) expect(text).not.toContain(secret)
  })

  it('events of other replicas omit default values of an admission', () => {
    const text = JSON.stringify(encodeAdmission(admission({ configVersion: 0 })))
    for (const name of ['adapter', 'priority', 'hints', 'configVersion']) expect(text).not.toContain(name)
  })

  it('events of other replicas follow a number and the id of the replica', () => {
    expect(readMessage('1795399232905001 host:id [["end"]]')).toEqual({
      number: 1795399232905001,
      replica: 'host:id',
      events: '[["end"]]',
    })
    for (const text of ['', 'x', '1 ', 'x y []', ' a []']) expect(readMessage(text)).toBeNull()
  })
})

it('docs/replicas.md lists exactly the commands that the scripts and the client use', () => {
  const folder = new URL('../../../src/platform/node/replicas/', import.meta.url)
  const files = readdirSync(folder).filter((name) => name.endsWith('.ts'))
  const source = files.map((name) => readFileSync(new URL(name, folder), 'utf8')).join('')
  const inScripts = [...source.matchAll(/redis\.call\('([A-Z]+)'/g)].map(([, command]) => command!.toLowerCase())
  const byClient = [...source.matchAll(/client\s*\.(eval|evalSha|sSubscribe|hScan|getEx|del)\(/g)]
  const used = new Set([...inScripts, ...byClient.map(([, method]) => method!.toLowerCase())])
  const documented = documentedRights('x').flatMap((right) => /^\+([a-z]+)$/.exec(right)?.[1] ?? [])
  expect(documented.toSorted()).toEqual([...used].toSorted())
})
