import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { namesIn, withDiscovered } from '../../src/config/discover.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { hasPassed, passedOthers, withVia } from '../../src/origin/via.ts'

const NAME = 'firstlight-0badcafe'
const OWN = `1.1 ${NAME}`

const passed: readonly [string, string][] = [
  ['alone', OWN],
  ['of another protocol', `HTTP/2 ${NAME}`],
  ['in other letters', '1.1 FirstLight-0BADCAFE'],
  ['first of many', `${OWN}, 1.1 b`],
  ['last of many', `1.0 a, 1.1 b (x), ${OWN}`],
  ['in the middle, without blanks', `1.0 a,1.1 ${NAME},1.1 b`],
  ['with tabs and more blanks', ` 1.1 \t ${NAME} \t , 1.1 b`],
  ['with a comment', `${OWN} (replica 3, rack (b) 7)`],
  ['between empty members', `,, ${OWN} ,,`],
  ['behind a comment', `1.1 a (one, two (three)) , ${OWN}`],
  ['behind a comment that never ends', `1.1 a (b, ${OWN}, 1.1 nginx (Debian)`],
  ['behind one that ends without a beginning', `1.1 a), ${OWN}`],
]
const strange: readonly [string, string][] = [
  ['nobody', ''],
  ['others', '1.1 a, 1.1 firstlight-0badcaff'],
  ['a longer name', `1.1 ${NAME}0, 1.1 my-${NAME}, 1.1 ${NAME}.example`],
  ['the name at a port', `1.1 ${NAME}:80`],
  ['the name in a comment', `1.1 a (${NAME}), 1.1 b (1.1 ${NAME}), 1.1 c (x, ${OWN}, y)`],
  ['the name in a comment of a comment', `1.1 a (see (${OWN}), and (x, (${OWN}, ${OWN})))`],
  ['the name as a protocol', `${NAME} a, ${NAME}`],
  ['the name behind another', `1.1 a ${NAME}`],
]

describe('a request has passed this deployment if `via` names it', () => {
  it.each(passed)('%s', (_, via) => expect(hasPassed(via, OWN)).toBe(true))
})

describe('a request has not passed this deployment if `via` names', () => {
  it('a request has not passed this deployment if `via` does not name it', () =>
    expect(hasPassed(null, OWN)).toBe(false))
  it.each(strange)('%s', (_, via) => expect(hasPassed(via, OWN)).toBe(false))
})

const token = fc.string({ unit: fc.constantFrom(...'abcdefilrst0123456789-._~'), minLength: 1, maxLength: 24 })
const comment = fc
  .string({ unit: fc.constantFrom(...`abc ,;()1.${'firstlight-0badcafe'}`), maxLength: 40 })
  .map((text) => `(${text.replaceAll(/[()]/g, '')})`)
const blanks = fc.constantFrom(' ', '\t', '  ')
const member = fc.tuple(
  fc.constantFrom('1.0', '1.1', '2', 'HTTP/1.1'),
  blanks,
  fc.oneof({ weight: 4, arbitrary: token }, { weight: 1, arbitrary: fc.constant(NAME) }),
  fc.option(comment, { nil: null }),
)

describe('`via`', () => {
  it('`via` names this deployment exactly if an entry does, whatever its comment', () => {
    fc.assert(
      fc.property(fc.array(member, { maxLength: 12 }), fc.constantFrom(',', ', ', ' ,\t'), (members, comma) => {
        const via = members
          .map(([protocol, blank, name, note]) => `${protocol}${blank}${name}${note === null ? '' : `${blank}${note}`}`)
          .join(comma)
        expect(hasPassed(via, OWN), via).toBe(members.some(([, , name]) => name === NAME))
      }),
      { numRuns: 500 },
    )
  })

  it('`via` names this deployment once it has been here, whatever a client wrote', () => {
    const anything = fc.string({ unit: fc.constantFrom(...'()\\",; 1.a\tfirstlight-'), maxLength: 1100 })
    fc.assert(
      fc.property(anything, (text) => {
        const value = withVia(text, OWN)
        expect(value.length).toBeLessThanOrEqual(1_000 + 2 + OWN.length)
        expect(hasPassed(value, OWN), value).toBe(true)
        expect(hasPassed(withVia(value, '1.1 another (one)'), OWN), value).toBe(value.length <= 1_000)
      }),
    )
  })

  it('`via` is forwarded with our entry added, unless it is longer than any valid one', () => {
    expect(withVia(null, OWN)).toBe(OWN)
    expect(withVia('', OWN)).toBe(OWN)
    expect(withVia('1.1 a (b), 1.0 c', OWN)).toBe(`1.1 a (b), 1.0 c, ${OWN}`)
    expect(withVia('x'.repeat(1_001), OWN)).toBe(OWN)
    expect(withVia('1.1 a,'.repeat(3_000), OWN)).toBe(OWN)
  })

  it('`via` shows whether another gateway of this kind was passed', () => {
    expect(passedOthers(null)).toBe(false)
    expect(passedOthers(OWN)).toBe(false)
    expect(passedOthers(`1.1 google, ${OWN}`)).toBe(false)
    expect(passedOthers(`1.1 firstlight-00000000, ${OWN}`)).toBe(true)
    expect(passedOthers(`1.1 Firstlight-00000000, 1.1 varnish, ${OWN}`)).toBe(true)
  })
})

const engine = { id: 'e', url: 'http://10.0.0.1:8000' }
const pool = { model: 'm', engines: [engine] }
const cluster = { id: 'c', pools: [pool] }
const read = (clusters: readonly object[], more: object = {}) =>
  parseConfig({ ...more, clusters }, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
const named = (...args: Parameters<typeof read>): string => read(...args).via

describe('the name of a deployment', () => {
  it('the name of a deployment is a token of a few letters', () =>
    expect(named([cluster])).toMatch(/^1\.1 firstlight-[0-9a-f]{8}$/))

  it('the name of a deployment is equal for all gateways with one document, however it is written', () => {
    const same: [readonly object[], object?][] = [
      [[{ pools: [{ engines: [{ url: 'http://10.0.0.1:8000/', id: 'e' }], model: 'm' }], id: 'c' }]],
      [[cluster], { version: 99, listen: '127.0.0.1:9', limits: { heartbeat_ms: 5 } }],
      [
        [
          {
            ...cluster,
            weight: 3,
            pools: [{ ...pool, policy: 'round_robin', engines: [{ ...engine, weight: 2, labels: { a: 'b' } }] }],
          },
        ],
      ],
    ]
    for (const [clusters, more] of same) expect(named(clusters, more)).toBe(named([cluster]))
  })

  it('the name of a deployment does not depend on secrets', () => {
    const secrets = (word: string) => [
      {
        ...cluster,
        pools: [
          {
            ...pool,
            engines: [{ ...engine, key: word, headers: { 'x-token': word } }],
            lmcache: { coordinator: 'http://10.0.0.9', headers: { 'x-token': word } },
          },
        ],
      },
    ]
    for (const word of ['one', 'two'])
      expect(
        named(secrets(word), {
          admin: { secret: word },
          keys: [{ name: 'k', secret: `${word}-key`, cache_salt: word }],
        }),
      ).toBe(named([cluster]))
  })

  it('the name of a deployment differs between documents with other engines, such as an edge and its regions', () => {
    const others = [
      [{ ...cluster, id: 'd' }],
      [{ ...cluster, region: 'eu' }],
      [{ ...cluster, pools: [{ ...pool, model: 'n' }] }],
      [{ ...cluster, pools: [{ ...pool, engines: [{ ...engine, url: 'http://10.0.0.2:8000' }] }] }],
      [{ ...cluster, pools: [{ ...pool, engines: [{ ...engine, id: 'f' }] }] }],
      [{ ...cluster, pools: [{ ...pool, engines: [{ ...engine, binding: 'VPC' }] }] }],
      [cluster, { ...cluster, id: 'd' }],
    ]
    const names = [named([cluster]), ...others.map((clusters) => named(clusters))]
    expect(new Set(names).size).toBe(names.length)
  })

  it('the name of a deployment does not change with the engines that are found by name', () => {
    const config = read([
      { ...cluster, pools: [{ ...pool, engines: [{ ...engine, url: 'http://vllm:8000', discover: 'dns' }] }] },
    ])
    expect(namesIn(config).size).toBe(1)
    const found = withDiscovered(config, () => ['10.0.0.7', '10.0.0.8'])
    expect(found.clusters[0]!.pools[0]!.engines).toHaveLength(2)
    expect(found.via).toBe(config.via)
  })
})
