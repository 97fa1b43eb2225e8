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
import { constructFromEvents, CORE_SCHEMA, EVENT_ID, mergeTag, parseEvents, YAMLException } from 'js-yaml'
import { isJsonObject } from '../core/json.ts'

/* Standard environment variables as defaults of the configuration. A key of the document takes precedence. */

type Document = Readonly<Record<string, unknown>>

interface Variable {
  readonly rule: string
  readonly isValid: (value: string) => boolean
  /** Adds the setting if the document leaves it out. */
  readonly apply: (document: Document, value: string) => Document
}

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

export const VARIABLES: Readonly<Record<string, Variable>> = {
  PORT: {
    rule: 'must be a port, 0 to 65535',
    isValid: (value) => /^\d{1,5}$/.test(value) && Number(value) <= 65_535,
    // Platforms that set PORT connect from other machines. Without keys that would expose the engines.
    apply: (document, value) => {
      const isProtected = document['keys'] !== undefined || document['open'] === true
      return { listen: `${isProtected ? '0.0.0.0' : '127.0.0.1'}:${value}`, ...document }
    },
  },
  LOG_LEVEL: {
    rule: `must be ${LEVELS.join(', ')}`,
    isValid: (value) => LEVELS.includes(value.toLowerCase()),
    apply: (document, value) => withSetting(document, 'log', { level: value.toLowerCase() }),
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    rule: 'must be a URL that starts with http:// or https://',
    isValid: (value) => /^https?:\/\/[^\s/]/.test(value),
    apply: (document, value) => withSetting(document, 'traces', { endpoint: value }),
  },
  OTEL_SERVICE_NAME: {
    rule: 'must have 1 to 255 characters',
    isValid: (value) => value.length <= 255,
    apply: (document, value) => withSetting(document, 'traces', { service: value }),
  },
}

/** Returns the document with settings from the environment. Throws a ConfigError that names the variable. */
export function withEnvironment(document: unknown, env: Env): unknown {
  if (!isJsonObject(document)) return document
  const problems: Problem[] = []
  let result: Document = document
  for (const [path, { rule, isValid, apply }] of Object.entries(VARIABLES)) {
    const value = env[path]
    if (typeof value !== 'string' || value === '') continue
    if (isValid(value)) result = apply(result, value)
    else problems.push({ path, value: JSON.stringify(value.slice(0, 100)), rule: `${rule} (environment)`, line: null })
  }
  if (problems.length > 0) throw new ConfigError(problems)
  return result
}

/** Leaves a malformed section to the validation of the document. */
function withSetting(document: Document, section: string, setting: Document): Document {
  const written = document[section] ?? {}
  return isJsonObject(written) ? { ...document, [section]: { ...setting, ...written } } : document
}

/* YAML (JSON is YAML too) to a plain value, with the line of every path. */

export interface ParsedYaml {
  readonly value: unknown
  /** Line (from 1) of the value at `path`, or of the nearest thing around it; null for an empty text. */
  lineOf(path: Path): number | null
}

export class YamlError extends Error {
  readonly line: number | null

  constructor(message: string, line: number | null) {
    super(message)
    this.name = 'YamlError'
    this.line = line
  }
}

type Events = ReturnType<typeof parseEvents>

/** Maximum number of YAML aliases, against exponential expansion. */
const MOST_ALIASES = 100

/** Parses YAML or JSON. Throws a YamlError. */
export function parseYaml(text: string): ParsedYaml {
  try {
    const events = parseEvents(text, {})
    const values = constructFromEvents(events, {
      source: text,
      schema: CORE_SCHEMA.withTags(mergeTag),
      maxAliases: MOST_ALIASES,
    })
    if (values.length > 1) throw new YamlError('holds more than one document', null)
    const offsets = offsetsOf(events, text)
    return { value: values[0] ?? null, lineOf: (path) => lineOf(text, offsets, path) }
  } catch (error) {
    if (error instanceof YAMLException)
      throw new YamlError(error.reason, error.mark === undefined ? null : error.mark.line + 1)
    throw error
  }
}

/** Offset of each path's value. Keys of the map are the path as JSON. */
function offsetsOf(events: Events, text: string): ReadonlyMap<string, number> {
  const offsets = new Map<string, number>()
  const open: Collection[] = []
  const place = (offset: number): (string | number)[] => {
    const path = open.map((collection) => collection.at)
    offsets.set(JSON.stringify(path), offset)
    return path
  }
  for (const event of events) {
    const parent = open.at(-1)
    if (event.type === EVENT_ID.SCALAR) {
      if (parent?.kind === 'key') parent.at = text.slice(event.valueStart, event.valueEnd)
      else place(event.valueStart)
      advance(parent)
    } else if (event.type === EVENT_ID.ALIAS) {
      place(event.anchorStart)
      advance(parent)
    } else if (event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE) {
      place(event.start)
      open.push(event.type === EVENT_ID.MAPPING ? { kind: 'key', at: '' } : { kind: 'item', at: 0 })
    } else if (event.type === EVENT_ID.POP) {
      open.pop()
      advance(open.at(-1))
    }
  }
  return offsets
}

/** Collection that is being read, with the next key or item. */
type Collection = { kind: 'key' | 'value'; at: string } | { kind: 'item'; at: number }

function advance(collection: Collection | undefined): void {
  if (collection === undefined) return
  if (collection.kind === 'item') collection.at++
  else collection.kind = collection.kind === 'key' ? 'value' : 'key'
}

function lineOf(text: string, offsets: ReadonlyMap<string, number>, path: Path): number | null {
  for (let length = path.length; length >= 0; length--) {
    const offset = offsets.get(JSON.stringify(path.slice(0, length)))
    if (offset === undefined) continue
    let line = 1
    for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) line++
    return line
  }
  return null
}

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
    const { value, lineOf: line } = parseYaml(text)
    return parse(value, env, options, line)
  } catch (error) {
    if (!(error instanceof YamlError)) throw error
    throw new ConfigError([{ path: '', value: null, rule: `is not YAML or JSON: ${error.message}`, line: error.line }])
  }
}

function parse(written: unknown, env: Env, options: ParseOptions, line: LineOf): Config {
  const document = withEnvironment(written, options.environment ?? {})
  const result = documentSchema.safeParse(document, { error: ruleOf, reportInput: true })
  if (!result.success) throw new ConfigError(problemsOf(document, findings(result.error.issues), line))
  const { document: resolved, found: unresolved } = resolveSecrets(result.data, document, env)
  const config = toConfig(resolved, options)
  const found = [
    ...checkForms(resolved),
    ...crossCheck(config, options.listens),
    ...unresolved,
    ...checkSecrets(config, options.sha256),
  ]
  if (found.length > 0) throw new ConfigError(problemsOf(document, found, line))
  return config
}

function problemsOf(document: unknown, found: readonly Finding[], line: LineOf): Problem[] {
  return found
    .map(({ path, rule }) => ({ path: renderPath(path), value: renderValue(document, path), rule, line: line(path) }))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}
