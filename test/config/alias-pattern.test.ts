import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byWidth, isAmbiguous, isMalformedPattern, matchesPattern } from '../../src/config/alias-pattern.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { nodeConfig } from '../kit/node-gateway.ts'

describe('a pattern of an alias', () => {
  it.each([
    ['claude-*', 'claude-opus-4-8[1m]', true],
    ['claude-*', 'claude-sonnet-4-5-20250929', true],
    ['claude-*', 'claude-', true],
    ['claude-*', 'claude', false],
    ['claude-*', 'Claude-opus', false],
    ['claude-opus-4-8[1m]*', 'claude-opus-4-81', false],
    ['*-mini', 'gpt-5-mini', true],
    ['gpt-*-mini', 'gpt-mini', false],
    ['gpt-*-mini', 'gpt--mini', true],
    ['*', 'anything', true],
    ['*', 'with a space', false],
    ['*', 'with\na line', false],
    ['*', 'x'.repeat(256), false],
  ])('%s and %s: %s', (pattern, name, isMatch) => {
    expect(matchesPattern(name, pattern)).toBe(isMatch)
  })

  it('a pattern of an alias has one wildcard', () => {
    expect(['claude-*', 'a', 'a*b*', '**'].map(isMalformedPattern)).toEqual([false, false, true, true])
  })

  const part = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 3 })
  const pattern = fc.tuple(part, part).map(([prefix, suffix]) => `${prefix}*${suffix}`)
  const names = Array.from({ length: 7 }, (_, length) =>
    Array.from({ length: 2 ** length }, (_one, bits) =>
      Array.from({ length }, (_two, at) => ((bits >> at) & 1 ? 'a' : 'b')).join(''),
    ),
  ).flat()

  it('a pattern of an alias is ambiguous with another if they share names and none is within the other', () => {
    fc.assert(
      fc.property(pattern, pattern, (one, other) => {
        const [of, ofOther] = [one, other].map((each) => names.filter((name) => matchesPattern(name, each)))
        const shares = of!.some((name) => ofOther!.includes(name))
        const isWithin = (inner: string[], outer: string[]) => inner.every((name) => outer.includes(name))
        expect(isAmbiguous(one, other)).toBe(shares && !isWithin(of!, ofOther!) && !isWithin(ofOther!, of!))
        // Of two that are not ambiguous, the narrower one is asked first.
        if (shares && isWithin(of!, ofOther!) && of!.length < ofOther!.length)
          expect(byWidth(one, other)).toBeLessThan(0)
      }),
    )
  })
})

describe('a configuration with patterns', () => {
  const problems = (pools: readonly object[], more: object = {}): readonly string[] => {
    const clusters = pools.map((pool, at) => ({
      id: `c${at}`,
      pools: [{ engines: [{ id: 'e', url: `http://127.0.0.1:${at + 1}` }], ...pool }],
    }))
    try {
      nodeConfig({ open: true, clusters, ...more })
      return []
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return error.problems.map(({ path, rule }) => `${path} ${rule}`)
    }
  }

  it('a configuration with patterns is refused if a pattern is malformed, or ambiguous with that of another model', () => {
    expect(problems([{ model: 'm', aliases: ['claude-*-*'] }])).toEqual([
      'clusters[0].pools[0].aliases[0] must have at most one *',
    ])
    expect(
      problems([
        { model: 'a', aliases: ['claude-*'] },
        { model: 'b', aliases: ['*-opus'] },
      ]),
    ).toEqual([
      'clusters[1].pools[0].aliases[0] is ambiguous with clusters[0].pools[0].aliases[0], claude-*: both match some ' +
        'name, of different models. Make one of them narrower',
    ])
  })

  it('a configuration with patterns may have narrower patterns within wider ones, and overlapping ones of one model', () => {
    expect(
      problems([
        { model: 'a', aliases: ['claude-*'] },
        { model: 'b', aliases: ['claude-opus-*'] },
      ]),
    ).toEqual([])
    expect(problems([{ model: 'a', aliases: ['claude-*', '*-opus'] }])).toEqual([])
  })

  it('a configuration with patterns is refused if the name of a model, an adapter or an engine’s model is one', () => {
    const pool = { model: 'm*', adapters: ['a*'] }
    expect(problems([pool]).map((problem) => problem.split(' ')[0])).toEqual([
      'clusters[0].pools[0].model',
      'clusters[0].pools[0].adapters[0]',
    ])
  })

  it('a configuration with patterns may give a key a pattern, or a name that one matches', () => {
    const keys = (...models: string[]) => ({
      open: false,
      keys: [{ name: 'k', secret: 'a-long-secret-for-k', models }],
    })
    const pools = [{ model: 'm', aliases: ['claude-*'] }]
    expect(problems(pools, keys('claude-*', 'claude-opus-4-8[1m]'))).toEqual([])
    expect(problems(pools, keys('gpt-5'))).toHaveLength(1)
  })
})
