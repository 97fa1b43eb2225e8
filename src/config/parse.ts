/** Parses and validates a configuration document. */
import type { Config } from '../config.ts'
import { withEnvironment } from './environment.ts'
import { type Finding, findings, ruleOf } from './finding.ts'
import { toConfig } from './normalize.ts'
import { ownDocument } from './own-document.ts'
import type { Env, ParseOptions } from './parse-options.ts'
import { type Path, renderPath } from './path.ts'
import { ConfigError, type Problem, renderValue } from './problem.ts'
import { resolveSecrets } from './resolve-secrets.ts'
import { documentSchema } from './schema.ts'
import { checkAdapters } from './validate-adapters.ts'
import { checkKeyForms, checkSecrets } from './validate-keys.ts'
import { checkClusterForms, crossCheck } from './validate.ts'
import { parseYaml, YamlError } from './yaml.ts'

/** Line of the text at which a path starts; null if there is no text. */
type LineOf = (path: Path) => number | null

/**
 * Validates a document (parsed YAML or JSON) and reads its secrets from `env`.
 * Throws one ConfigError with all problems.
 */
export function parseConfig(document: unknown, env: Env, options: ParseOptions): Config {
  return parseDocument(document, env, options, () => null)
}

/** Parses and validates YAML or JSON text. Throws a ConfigError whose problems have line numbers. */
export function parseConfigText(text: string, env: Env, options: ParseOptions): Config {
  try {
    const { value, lineOf: line } = parseYaml(text)
    return parseDocument(value, env, options, line)
  } catch (error) {
    if (!(error instanceof YamlError)) throw error
    throw new ConfigError([{ path: '', value: null, rule: `is not YAML or JSON: ${error.message}`, line: error.line }])
  }
}

function parseDocument(written: unknown, env: Env, options: ParseOptions, line: LineOf): Config {
  const whole = withEnvironment(written, options.environment ?? {})
  const { document, findings: unfit, pathOf } = ownDocument(whole, options.region ?? null)
  const problemsIn = (found: readonly Finding[]): Problem[] =>
    problemsOf(
      whole,
      found.map(({ path, rule }) => ({ path: pathOf(path), rule })),
      line,
    )
  if (unfit.length > 0) throw new ConfigError(problemsOf(whole, unfit, line))
  const result = documentSchema.safeParse(document, { error: ruleOf, reportInput: true })
  if (!result.success) throw new ConfigError(problemsIn(findings(result.error.issues)))
  const { document: resolved, findings: unresolved } = resolveSecrets(result.data, document, env)
  const config = toConfig(resolved, options)
  const findingsOfRules = [
    ...checkClusterForms(resolved),
    ...checkAdapters(resolved),
    ...crossCheck(config, options.listens),
    ...unresolved,
    ...checkKeyForms(resolved),
    ...checkSecrets(resolved, options.sha256),
  ]
  if (findingsOfRules.length > 0) throw new ConfigError(problemsIn(findingsOfRules))
  return config
}

function problemsOf(document: unknown, found: readonly Finding[], line: LineOf): Problem[] {
  return found
    .map(({ path, rule }) => ({ path: renderPath(path), value: renderValue(document, path), rule, line: line(path) }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}
