/** Standard environment variables as defaults of the configuration. A key of the document takes precedence. */
import { isJsonObject } from '../core/json.ts'
import type { Env } from './parse-options.ts'
import { ConfigError, type Problem } from './problem.ts'

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
