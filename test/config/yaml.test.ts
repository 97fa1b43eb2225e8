import { describe, expect, it } from 'vitest'
import { parseYaml, YamlError } from '../../src/config/yaml.ts'

const TEXT = `# a comment
listen: 127.0.0.1:1
clusters:
  - id: a
    pools:
      - { model: m,
          aliases: [x, y] }
  - &b
    id: b
    labels: {"k": 1}
  - *b
  - { <<: *b, id: c }
`

describe('parseYaml', () => {
  it('parseYaml returns the line of every value, and of the nearest parent of a missing one', () => {
    const { lineOf } = parseYaml(TEXT)
    expect([
      lineOf(['listen']),
      lineOf(['clusters', 0, 'id']),
      lineOf(['clusters', 0, 'pools', 0, 'aliases', 1]),
      lineOf(['clusters', 1, 'labels', 'k']),
      lineOf(['clusters', 3, 'id']),
      lineOf(['clusters', 0, 'pools', 0, 'nowhere', 'deep']),
    ]).toEqual([2, 4, 7, 10, 12, 6])
  })

  it('parseYaml finds lines in JSON as well', () => {
    const { lineOf, value } = parseYaml('{\n "a": {\n  "b": [1,\n   2]\n }\n}')
    expect(value).toEqual({ a: { b: [1, 2] } })
    expect([lineOf(['a', 'b']), lineOf(['a', 'b', 1])]).toEqual([3, 4])
  })

  it('parseYaml resolves aliases and merge keys', () => {
    const { clusters } = parseYaml(TEXT).value as { clusters: { id: string; labels?: object }[] }
    expect(clusters.map(({ id }) => id)).toEqual(['a', 'b', 'b', 'c'])
    expect(clusters[3]!.labels).toEqual({ k: 1 })
  })

  it.each([
    ['an unclosed list', 'a: [1\nb: 2'],
    ['two documents', 'a: 1\n---\nb: 2\n'],
    ['aliases that blow up', `a: &a [1]\nb: [${'*a, '.repeat(101)}*a]`],
  ])('parseYaml refuses %s', (_name, text) => {
    expect(() => parseYaml(text)).toThrow(YamlError)
  })

  it('parseYaml returns no document for an empty text', () => {
    expect(parseYaml('').value).toBeNull()
  })
})
