/** Loads the configuration of a Node process: from a file, or from the variable that Workers use. */
import { existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../../config.ts'
import { REGION_VARIABLE } from '../../config/own-document.ts'
import { parseConfigText } from '../../config/parse.ts'
import type { Env } from '../../config/parse-options.ts'
import { UsageError, readInput } from './usage-error.ts'
import { createHash } from 'node:crypto'

/** SHA-256 as 64 lower-case hexadecimal digits, the format of `keys[].secret.sha256`. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const defaultFile = 'firstlight.yaml'
export const configVariable = 'FIRSTLIGHT_CONFIG'

interface LoadedConfig {
  readonly config: Config
  readonly text: string
  /** File name or variable name, for messages. */
  readonly from: string
  /** Folder of relative paths in the document. */
  readonly folder: string
}

/** Environment in which every variable is set, for a document that is read without its secrets. */
export const anySecret: Env = new Proxy({}, { get: (_, name) => `value-of-${String(name)}` })

/** True if a configuration exists without `--config`. */
export function hasConfig(env: Env): boolean {
  return typeof env[configVariable] === 'string' || existsSync(defaultFile)
}

/**
 * Reads and validates the configuration. `file` null: the variable, else ./firstlight.yaml. Secrets are read from
 * `secrets`. Throws a UsageError if there is none, a ConfigError if it is invalid.
 * @param isForWorkers validates it as a Worker does
 */
export function loadConfig(file: string | null, env: Env, secrets: Env = env, isForWorkers = false): LoadedConfig {
  const { text, from, version, folder } = readText(file, env)
  const runtime = isForWorkers
    ? { defaultObserveShare: 0.1, environment: {}, listens: false }
    : { defaultObserveShare: 1, environment: env, listens: true }
  return {
    text,
    from,
    folder,
    config: parseConfigText(text, secrets, { defaultVersion: version, region: regionIn(env), ...runtime, sha256 }),
  }
}

/** Cluster that this gateway serves; null: none is named. */
const regionIn = ({ [REGION_VARIABLE]: region }: Env): string | null =>
  typeof region === 'string' && region !== '' ? region : null

const firstSteps = 'Write one with "firstlight init", or try "firstlight demo" first.'

function readText(file: string | null, env: Env): { text: string; from: string; version: number; folder: string } {
  const inline = env[configVariable]
  if (file === null && typeof inline === 'string')
    return { text: inline, from: configVariable, version: 1, folder: '.' }
  const path = file ?? defaultFile
  if (file === null && !existsSync(path))
    throw new UsageError(`There is no ${defaultFile} here and no ${configVariable} in the environment.`, firstSteps)
  return {
    text: readInput(path, firstSteps).toString('utf8'),
    from: path,
    version: Math.floor(statSync(path).mtimeMs),
    folder: dirname(path),
  }
}
