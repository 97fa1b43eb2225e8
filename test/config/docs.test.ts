import { loadAll } from 'js-yaml'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../src/config/parse.ts'
import { cliMarkdown } from '../../scripts/cli-docs.ts'
import { configJsonSchema, configMarkdown } from '../../scripts/config-docs.ts'
import { enginesMarkdown } from '../../scripts/engines-docs.ts'
import { openApiJson } from '../../scripts/openapi-docs.ts'

const pagesOf = (folder: string): string[] =>
  readdirSync(new URL(`../../${folder}`, import.meta.url)).flatMap((name) =>
    name.endsWith('.md') ? [`${folder}/${name}`] : [],
  )
const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

describe('generated from the current schema (else: npm run docs)', () => {
  it('docs/cli.md', async () => {
    expect(file('docs/cli.md')).toBe(await cliMarkdown())
  })

  it('docs/config.md', () => {
    expect(file('docs/config.md')).toBe(configMarkdown())
  })

  it('the tables of docs/engines.md', () => {
    const page = file('docs/engines.md')
    expect(page).toContain('| SGLang |')
    expect(page).toBe(enginesMarkdown(page))
  })

  it('docs/firstlight.schema.json', () => {
    expect(file('docs/firstlight.schema.json')).toBe(configJsonSchema())
  })

  it('the OpenAPI document of the admin API', () => {
    expect(file('src/api/openapi/document.json')).toBe(openApiJson())
  })
})

describe('every example is valid', () => {
  const anyEnv = new Proxy(
    {},
    { get: (_, name) => (String(name).endsWith('_URL') ? 'redis://valkey' : `value-of-${String(name)}`) },
  )
  const parsed = (text: string) =>
    parseConfigText(text, anyEnv, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
  const examples = readdirSync(new URL('../../examples', import.meta.url)).filter(
    (name) => name.endsWith('.yaml') && name !== 'kubernetes.yaml',
  )

  it.each(examples)('%s', (name) => {
    expect(parsed(file(`examples/${name}`)).clusters).not.toEqual([])
  })

  const blocks = ['README.md', ...['docs', 'docs/tutorials'].flatMap((folder) => pagesOf(folder))].flatMap((page) =>
    [...file(page).matchAll(/^```ya?ml\n([\s\S]*?)^```/gm)].map(([, block]) => ({ page, block: block! })),
  )
  // A block with `…`, or without clusters, is a part of a configuration.
  const whole = blocks.filter(({ block }) => /^clusters:/m.test(block) && !block.includes('…'))

  it.each(whole.map(({ page, block }) => [page, block]))('a configuration of %s is accepted', (_, block) => {
    expect(parsed(block).clusters).not.toEqual([])
  })

  it('the docs have whole configurations', () => {
    expect(whole.length).toBeGreaterThan(20)
  })

  it('kubernetes.yaml uses the ports, names and variables of its configuration', () => {
    interface Object {
      readonly kind: string
      readonly metadata: { readonly name: string }
      readonly data: Record<string, string>
      readonly spec: {
        readonly ports: readonly { readonly port: number }[]
        readonly template: {
          readonly spec: {
            readonly containers: readonly {
              readonly ports: readonly { readonly containerPort: number }[]
              readonly env: readonly { readonly name: string }[]
            }[]
          }
        }
      }
    }
    const objects = loadAll(file('examples/kubernetes.yaml')) as Object[]
    const text = objects.find(({ kind }) => kind === 'ConfigMap')!.data['firstlight.yaml']!
    const { listen } = parsed(text)
    const [container] = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'firstlight')!
      .spec.template.spec.containers
    expect(container!.ports.map(({ containerPort }) => containerPort)).toEqual([listen.port])
    expect(container!.env.map(({ name }) => name).sort()).toEqual(
      [...text.matchAll(/env: (\w+)/g)].map(([, name]) => name).sort(),
    )
    const valkey = objects.find(({ kind, metadata }) => kind === 'Service' && metadata.name === 'firstlight-valkey')!
    expect(text).toContain('url: { env: FIRSTLIGHT_REPLICAS_URL }')
    expect(valkey.spec.ports.map(({ port }) => port)).toEqual([6379])
  })
})
