/** The door of the configuration: what comes out is trusted. */
import { LineCounter, parseDocument, type Document } from 'yaml'
import type { Config } from '../config.ts'
import { findings, ruleOf, type Finding } from './issues.ts'
import { ConfigError, renderPath, renderValue, type Path, type Problem } from './problem.ts'
import { Reader, type Env, type ParseOptions } from './read.ts'
import { crossCheck } from './rules.ts'
import { documentSchema } from './schema.ts'

export type { Env, ParseOptions } from './read.ts'
export { ConfigError, describeProblem, type Problem } from './problem.ts'

/** Where in the text a path stands; null when there is no text. */
type LineOf = (path: Path) => number | null

/**
 * Validates a document (parsed YAML or JSON) and resolves its secrets from `env`.
 * Throws one ConfigError that lists every problem.
 */
export function parseConfig(document: unknown, env: Env, options: ParseOptions): Config {
  return parse(document, env, options, () => null)
}

/** The same from YAML or JSON text; problems carry lines. */
export function parseConfigText(text: string, env: Env, options: ParseOptions): Config {
  const lines = new LineCounter()
  const yaml = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false })
  if (yaml.errors.length > 0) {
    throw new ConfigError(
      yaml.errors.map((error) => ({ path: '', value: null, rule: `is not YAML or JSON: ${error.message}`, line: lines.linePos(error.pos[0]).line })),
    )
  }
  return parse(toPlain(yaml), env, options, (path) => lineOf(yaml, lines, path))
}

/** Throws for what a YAML parser refuses late: aliases that expand without end. */
function toPlain(yaml: Document): unknown {
  try {
    return yaml.toJS({ maxAliasCount: 100 })
  } catch (error) {
    throw new ConfigError([{ path: '', value: null, rule: `is not usable YAML: ${(error as Error).message}`, line: null }])
  }
}

function parse(document: unknown, env: Env, options: ParseOptions, line: LineOf): Config {
  const result = documentSchema.safeParse(document, { error: ruleOf, reportInput: true })
  if (!result.success) throw new ConfigError(problems(document, findings(result.error.issues), line))
  const reader = new Reader(env, options)
  const config = reader.config(result.data)
  const found = [...crossCheck(result.data, options.listens), ...reader.findings]
  if (found.length > 0) throw new ConfigError(problems(document, found, line))
  return config
}

function problems(document: unknown, found: readonly Finding[], line: LineOf): Problem[] {
  return found
    .map(({ path, rule }) => ({ path: renderPath(path), value: renderValue(document, path), rule, line: line(path) }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}

/** Line of the value at `path`, or of the nearest thing around it. */
function lineOf(yaml: Document, lines: LineCounter, path: Path): number | null {
  for (let length = path.length; length >= 0; length -= 1) {
    const node = yaml.getIn(path.slice(0, length), true) as { range?: readonly number[] | null } | undefined
    const start = node?.range?.[0]
    if (start !== undefined) return lines.linePos(start).line
  }
  return null
}
