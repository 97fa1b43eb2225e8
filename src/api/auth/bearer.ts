import { Failure } from '../../failure.ts'

/** The part of a request's headers that is read here. */
export type HeaderReader = Pick<Headers, 'get'>

/** null: no bearer token was sent. */
export function bearer(headers: HeaderReader): string | null {
  const value = headers.get('authorization')
  return value === null ? null : (/^bearer +(\S+) *$/i.exec(value)?.[1] ?? null)
}

export function keyFailure(reason: 'key_missing' | 'key_wrong' | 'key_expired', message: string): Failure {
  return new Failure(reason, message, { headers: { 'www-authenticate': 'Bearer' } })
}
