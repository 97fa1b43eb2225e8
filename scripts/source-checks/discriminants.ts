/**
 * Code outside src/protocols and src/engines that decides by the protocol or the engine type: comparisons with one or
 * with its name or path, and tables of engine types. Add a member to `Protocol` or `EngineType` instead, so that a new
 * one is a new file.
 */
import { type ESTree, Visitor } from 'vite'
import { ENGINE_TYPES } from '../../src/engines/engine-registry.ts'
import { endpoints, protocols } from '../../src/protocols/protocols.ts'
import { importedPath, lineAt, type SourceFile } from './source-files.ts'

const ENGINE_ADVICE = 'Read a member of EngineType (src/engines/engine-type.ts), or add one.'
const PROTOCOL_ADVICE = 'Read a member of Protocol (src/protocols/protocol.ts), or add one.'

/** Types that are also ordinary words: they count only beside `kind`, `name` or `type`. */
const COMMON_TYPES: ReadonlySet<string> = new Set(['unknown', 'external', 'firstlight'])
const TYPES: ReadonlySet<string> = new Set(ENGINE_TYPES.map(({ name }) => name))
const NAMES: ReadonlySet<string> = new Set(protocols.map(({ name }) => name))
const PATHS: ReadonlySet<string> = new Set(endpoints.map(({ path }) => path))

/** Parameters and members that hold a protocol or its name. `url.protocol` is compared with text. */
const HOLDS_PROTOCOL = /protocol$/i
const EQUALITY: ReadonlySet<string> = new Set(['===', '!==', '==', '!='])
const PATH_TESTS: ReadonlySet<string> = new Set(['startsWith', 'endsWith', 'includes'])

/** Folders that may compare. The configuration has engine types of its own. */
const ADAPTERS = /^src\/(protocols|engines)\//
const MAY_COMPARE_ENGINES = /^src\/(protocols|engines|config)\//

type Node = ESTree.Node

/** Last name of `a.b.c` or `c`. null: another expression. */
function nameOf(node: Node): string | null {
  if (node.type === 'Identifier') return node.name
  if (node.type === 'ChainExpression') return nameOf(node.expression)
  return node.type === 'MemberExpression' && !node.computed ? nameOf(node.property as Node) : null
}

const textOf = (node: Node): string | null =>
  node.type === 'Literal' && typeof node.value === 'string' ? node.value : null

/** What of a comparison names a protocol or an engine type. null: nothing does. */
function namedBy(left: Node, right: Node, constants: ReadonlyMap<string, string>): string | null {
  const name = nameOf(left) ?? ''
  const text = textOf(right)
  if (text !== null) {
    if (TYPES.has(text) && (!COMMON_TYPES.has(text) || /^(kind|name|type)$/i.test(name))) return ENGINE_ADVICE
    // `form` is how core represents a prompt.
    if ((NAMES.has(text) && name !== 'form') || PATHS.has(text)) return PROTOCOL_ADVICE
    return null
  }
  if (right.type !== 'Identifier') return null
  if (HOLDS_PROTOCOL.test(name) && right.name !== 'undefined') return PROTOCOL_ADVICE
  return constants.get(right.name) ?? null
}

/** Protocols and engine types that a file imports, with the advice for each. Other constants are in capitals. */
function importedConstants(file: SourceFile): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const { moduleRequest, entries } of file.parsed.module.staticImports) {
    const folder = ADAPTERS.exec(importedPath(file, moduleRequest.value) ?? '')?.[1]
    if (folder === undefined) continue
    for (const { localName } of entries)
      if (/^[a-z]/.test(localName.value))
        found.set(localName.value, folder === 'engines' ? ENGINE_ADVICE : PROTOCOL_ADVICE)
  }
  return found
}

/** Problems of one file, as text for the developer. */
export function comparedDiscriminants(file: SourceFile): string[] {
  if (!/^(src|durable)\//.test(file.path) || ADAPTERS.test(file.path)) return []
  const constants = importedConstants(file)
  const problems: string[] = []
  const report = ({ start }: Node, what: string, advice: string | null): void => {
    if (advice === null || (advice === ENGINE_ADVICE && MAY_COMPARE_ENGINES.test(file.path))) return
    const of = advice === ENGINE_ADVICE ? 'an engine type' : 'a protocol'
    problems.push(`${file.path}:${lineAt(file, start)}: ${what} ${of}. ${advice}`)
  }
  new Visitor({
    BinaryExpression(node) {
      if (!EQUALITY.has(node.operator)) return
      const advice = namedBy(node.left, node.right, constants) ?? namedBy(node.right, node.left, constants)
      report(node, 'compares', advice)
    },
    SwitchStatement({ discriminant, cases }) {
      for (const { test } of cases) if (test !== null) report(test, 'compares', namedBy(discriminant, test, constants))
    },
    CallExpression(node) {
      const text = node.arguments[0] === undefined ? null : textOf(node.arguments[0])
      if (text !== null && PATHS.has(text) && PATH_TESTS.has(nameOf(node.callee) ?? ''))
        report(node, 'compares', PROTOCOL_ADVICE)
    },
    ObjectExpression(node) {
      const keys = node.properties.flatMap((one) =>
        one.type === 'Property' ? [nameOf(one.key) ?? textOf(one.key)] : [],
      )
      const kinds = keys.filter((key) => key !== null && TYPES.has(key) && !COMMON_TYPES.has(key))
      if (kinds.length > 1) report(node, 'has a table by', ENGINE_ADVICE)
    },
  }).visit(file.parsed.program)
  return problems
}
