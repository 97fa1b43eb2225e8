/** The door of the configuration: what comes out is trusted. */
import type { Config } from '../config.ts'
import {
  ConfigError,
  renderPath,
  renderValue,
  type Path,
  type Problem,
  findings,
  ruleOf,
  type Finding,
} from './problem.ts'
import { ConfigNormalizer, type Env, type ParseOptions } from './normalize.ts'
import { checkForms, crossCheck } from './validate.ts'
import { documentSchema, withPools } from './schema.ts'
import { parseYaml, YamlError } from './yaml.ts'

export type { Env, ParseOptions } from './normalize.ts'
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
  try {
    const { value, lineOf } = parseYaml(text)
    return parse(value, env, options, lineOf)
  } catch (error) {
    if (!(error instanceof YamlError)) throw error
    throw new ConfigError([{ path: '', value: null, rule: `is not YAML or JSON: ${error.message}`, line: error.line }])
  }
}

function parse(document: unknown, env: Env, options: ParseOptions, line: LineOf): Config {
  const result = documentSchema.safeParse(document, { error: ruleOf, reportInput: true })
  if (!result.success) throw new ConfigError(problems(document, findings(result.error.issues), line))
  const reader = new ConfigNormalizer(env, options)
  const read = withPools(result.data)
  const config = reader.config(read)
  const found = [...checkForms(result.data), ...crossCheck(read, options.listens), ...reader.findings]
  if (found.length > 0) throw new ConfigError(problems(document, found, line))
  return config
}

function problems(document: unknown, found: readonly Finding[], line: LineOf): Problem[] {
  return found
    .map(({ path, rule }) => ({ path: renderPath(path), value: renderValue(document, path), rule, line: line(path) }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}
