import type * as z from 'zod/mini'
import type { ConfigDocument } from '../config.ts'
import { toSnakeKey } from './fields.ts'
import type { Finding } from './finding.ts'
import type { Env } from './parse-options.ts'
import { type Path, valueAt } from './path.ts'
import type { documentSchema } from './schema.ts'
import { SecretRef, textRule } from './secret-fields.ts'

/**
 * Reads the secrets of a document from the environment.
 * @param raw the document before the schema's transforms, whose keys name the paths of findings
 */
export function resolveSecrets(
  document: z.output<typeof documentSchema>,
  raw: unknown,
  env: Env,
): { readonly document: ConfigDocument; readonly findings: readonly Finding[] } {
  const findings: Finding[] = []
  return { document: resolveValue(document, [], { raw, env, findings }) as ConfigDocument, findings }
}

interface Resolution {
  readonly raw: unknown
  readonly env: Env
  readonly findings: Finding[]
}

export function resolveValue(value: unknown, path: Path, at: Resolution): unknown {
  if (value instanceof SecretRef) return readSecret(value, path, at)
  if (Array.isArray(value)) return value.map((item, index) => resolveValue(item, [...path, index], at))
  if (typeof value !== 'object' || value === null) return value
  const written = valueAt(at.raw, path)
  const hasKey = (key: string) => typeof written === 'object' && written !== null && Object.hasOwn(written, key)
  // Keys of records, such as header names, are unchanged; all others were snake_case.
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      resolveValue(item, [...path, hasKey(key) ? key : toSnakeKey(key)], at),
    ]),
  )
}

function readSecret({ value, pattern }: SecretRef, path: Path, { env, findings }: Resolution): string {
  if (typeof value === 'string') return value
  const read = env[value.env]
  if (typeof read === 'string' && pattern.test(read)) return read
  const problem =
    typeof read === 'string' && read !== ''
      ? `whose value is not ${textRule(pattern)}`
      : 'which is not set in the environment'
  findings.push({ path: [...path, 'env'], rule: `names ${value.env}, ${problem}` })
  return ''
}
