/** Generates docs/config.md and the JSON Schema for editors from the configuration schema. */
import * as z from 'zod'
import { policyKinds } from '../src/core/routing/policies/policies.ts'
import type { PolicyKind } from '../src/core/routing/policy-options.ts'
import { documentSchema } from '../src/config/schema.ts'
import { id } from '../src/config/fields.ts'

/** The part of JSON Schema that the configuration uses. */
interface Node {
  readonly type?: string
  readonly pattern?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly properties?: Readonly<Record<string, Node>>
  readonly required?: readonly string[]
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly additionalProperties?: Node | boolean
}

/** The pattern of ids, which the page describes once. */
const NAME = z.toJSONSchema(id).pattern

export function configJsonSchema(): string {
  const schema = z.toJSONSchema(documentSchema, { io: 'input', target: 'draft-7' })
  return `${JSON.stringify(schema, null, 2)}\n`
}

const head = `# Configuration

<!-- Generated from src/config/schema.ts by \`npm run docs\`. Edit the schema instead. -->

One YAML or JSON document, the same on both runtimes.

| runtime | source |
| --- | --- |
| Node | \`--config FILE\`, else the text in the variable \`FIRSTLIGHT_CONFIG\`, else \`./firstlight.yaml\` |
| Workers | the text in the variable or secret \`FIRSTLIGHT_CONFIG\`, else the key \`firstlight.yaml\` of the KV namespace bound as \`CONFIG\`, else the file that \`npm run deploy\` has bundled ([the three places](deploy-workers.md#2-configuration)) |

\`firstlight check FILE\` validates a document and prints the effective settings. Unknown keys, invalid values, duplicate names and
unset variables prevent the start. All problems are reported at once, each with path, value and rule.

* **Units** are part of the names: \`_ms\`, \`_s\`, \`_tokens\`, \`_bytes\`.
* **Secrets** are written as \`{ env: NAME }\`: an environment variable on Node, a secret or variable of the Worker on Workers. Literal values are
  accepted, for trials. Client keys (\`keys[].secret\`) can be given as a hash, \`{ sha256: 64 HEX DIGITS }\`: then the document contains no usable
  secret and needs no variable. \`firstlight key\` makes both forms. Keys must be unique across clients, \`admin\` and \`bridge\`. Duplicates are
  rejected, even if one is given as a hash.
* **Names** have 1 to 63 letters, digits, \`.\`, \`_\` or \`-\` and start with a letter or digit. They appear in headers, paths and metrics.
* **Editors** validate and complete the document with this first line:
  \`# yaml-language-server: $schema=./node_modules/firstlight/docs/firstlight.schema.json\` (or the path of [firstlight.schema.json](firstlight.schema.json)).
* **version** decides which of two documents is newer. Cluster objects adopt only newer versions, so an edge that still has the old document
  cannot restore it. The default on Node is the modification time of the file, on Workers the time of deployment. A document in KV changes
  without a deployment: raise its \`version\` with every change.

## Examples

[examples/firstlight.yaml](../examples/firstlight.yaml) is the smallest, [examples/production.yaml](../examples/production.yaml) has keys, two clusters and private engines;
[examples/regions-edge.yaml](../examples/regions-edge.yaml) and [examples/regions-paris.yaml](../examples/regions-paris.yaml) are an edge and one of its [regions](regions.md).

## Keys
`

export function configMarkdown(): string {
  const root = JSON.parse(configJsonSchema()) as Node
  const sections: string[] = [head]
  section({ sections, printed: new Map() }, 'The document', '', root)
  sections.push(policySection())
  return `${sections
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()}\n`
}

interface Page {
  readonly sections: string[]
  /** Path of each mapping that has a table, by its keys. */
  readonly printed: Map<string, string>
}

/** One table per mapping. Nested mappings get their own sections, unless an equal one has a table. */
function section(page: Page, title: string, path: string, node: Node): void {
  const { sections, printed } = page
  const rows = ['', `### ${title}`, '', '| key | value | default | meaning |', '| --- | --- | --- | --- |']
  const inside: [string, Node][] = []
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    const required = node.required?.includes(name) ?? false
    const mapping = mappingIn(child)
    const keys = JSON.stringify(mapping?.properties)
    const same = mapping === null ? undefined : printed.get(keys)
    const kind = `${kindOf(child)}${same === undefined ? '' : `, as \`${same}\``}`
    rows.push(
      `| \`${name}\` | ${kind} | ${required ? '**required**' : defaultOf(child)} | ${child.description ?? ''} |`,
    )
    if (mapping === null || same !== undefined) continue
    const childPath = `${path}${name}${child.type === 'array' ? '[]' : ''}`
    printed.set(keys, childPath)
    inside.push([childPath, mapping])
  }
  sections.push(rows.join('\n'))
  for (const [childPath, child] of inside) section(page, `\`${childPath}\``, `${childPath}.`, child)
}

function mappingIn(node: Node): Node | null {
  const target = node.type === 'array' ? node.items : node
  return target?.properties === undefined ? null : target
}

function kindOf(node: Node): string {
  if (node.enum !== undefined) return node.enum.map((one) => `\`${String(one)}\``).join(', ')
  if (node.anyOf !== undefined) return alternatives(node.anyOf)
  if (node.type === 'array')
    return `list of ${node.items?.properties === undefined ? plural(kindOf(node.items ?? {})) : 'mappings'}`
  if (node.properties !== undefined) return 'mapping'
  if (node.type === 'object')
    return `name: ${typeof node.additionalProperties === 'object' ? kindOf(node.additionalProperties) : 'value'}`
  if (node.type === 'integer' || node.type === 'number') return numberKind(node)
  if (node.type === 'boolean') return '`true`, `false`'
  return node.pattern === NAME ? 'name' : 'text'
}

function alternatives(nodes: readonly Node[]): string {
  if (nodes.some((node) => node.properties?.['env'] !== undefined)) return 'secret'
  if (nodes.some((node) => node.anyOf !== undefined)) return '[policy](#policies)'
  return nodes.map((node) => (node.type === 'null' ? '`null`' : kindOf(node))).join(' or ')
}

function numberKind({ type, minimum, maximum }: Node): string {
  const open = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER
  const range = open ? `from ${minimum ?? 0}` : `${count(minimum ?? 0)} to ${count(maximum)}`
  return `${type === 'integer' ? 'integer' : 'number'}, ${range}`
}

const count = (value: number) =>
  Number.isInteger(value) && value >= 10_000 ? value.toLocaleString('en') : String(value)
const plural = (kind: string) => (kind === 'text' || kind === 'name' ? `${kind}s` : kind)

function defaultOf(node: Node): string {
  const value = node.default
  if (value === undefined || (typeof value === 'object' && value !== null)) return ''
  return `\`${String(value)}\``
}

function policySection(): string {
  const rows = policyKinds.map(({ name, doc, source }) => `| \`${name}\` | ${doc} | ${source} |`)
  return [
    '',
    '### Policies',
    '',
    'A name, or a mapping with the name and options: `{ name: session }`.',
    '',
    '| name | rule | source |',
    '| --- | --- | --- |',
    ...rows,
    ...policyKinds.flatMap(policyOptions),
  ].join('\n')
}

function policyOptions({ name, options }: PolicyKind): string[] {
  const entries = Object.entries(options)
  if (entries.length === 0) return []
  const rows = entries.map(([option, spec]) => {
    const range = spec.min === undefined && spec.max === undefined ? '' : ` (${spec.min ?? '…'} to ${spec.max ?? '…'})`
    const kind =
      spec.values === undefined
        ? `${typeof spec.default}${range}`
        : spec.values.map((value) => `\`${value}\``).join(', ')
    return `| \`${option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}\` | ${kind} | \`${String(spec.default)}\` | ${spec.doc} |`
  })
  return [
    '',
    `Options of \`${name}\`:`,
    '',
    '| option | value | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows,
  ]
}
