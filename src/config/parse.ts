/** Parses and validates a configuration document. */
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
import { type Env, type ParseOptions, resolveSecrets, toConfig } from './normalize.ts'
import { checkForms, checkSecrets, crossCheck } from './validate.ts'
import { documentSchema } from './schema.ts'
import { parseYaml, YamlError } from './yaml.ts'

export type { Env, ParseOptions } from './normalize.ts'
export { ConfigError, describeProblem, type Problem } from './problem.ts'

/** Line of the text at which a path starts; null if there is no text. */
type LineOf = (path: Path) => number | null

/**
 * Validates a document (parsed YAML or JSON) and reads its secrets from `env`.
 * Throws one ConfigError with all problems.
 */
export function parseConfig(document: unknown, env: Env, options: ParseOptions): Config {
  return parse(document, env, options, () => null)
}

/** Parses and validates YAML or JSON text. Throws a ConfigError whose problems have line numbers. */
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
  const { document: resolved, found: unresolved } = resolveSecrets(result.data, document, env)
  const config = toConfig(resolved, options)
  const found = [
    ...checkForms(resolved),
    ...crossCheck(config, options.listens),
    ...unresolved,
    ...checkSecrets(config, options.sha256),
  ]
  if (found.length > 0) throw new ConfigError(problems(document, found, line))
  return config
}

function problems(document: unknown, found: readonly Finding[], line: LineOf): Problem[] {
  return found
    .map(({ path, rule }) => ({ path: renderPath(path), value: renderValue(document, path), rule, line: line(path) }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}
