/** Fields of a body that need permission. */
import { Failure } from '../failure.ts'
import type { Caller } from './auth.ts'

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Engines that are gateways themselves (LiteLLM) read the members of this object as members of the body. */
const EXTRA_BODY = 'extra_body'

/**
 * Refuses a `priority` that would reach an engine's queue from a key that may not choose it. The priority of the key
 * replaces the client's in JSON; a form cannot be edited. Fails with `forbidden`.
 */
export function authorizePriority(json: Json, caller: Caller, isForm: boolean): void {
  const mayChoose = caller.allowOverrides && caller.priority === null
  if (mayChoose) return
  const isReplaced = caller.priority !== null && !isForm
  if (!isReplaced && Object.hasOwn(json, 'priority')) throw priorityFailure('priority')
  const extra = json[EXTRA_BODY]
  if (isObject(extra) && Object.hasOwn(extra, 'priority')) throw priorityFailure(`${EXTRA_BODY}.priority`)
}

const priorityFailure = (param: string): Failure =>
  new Failure(
    'forbidden',
    `This key may not set ${param}. Leave it out, or ask the operator for allow_overrides or a priority of this key.`,
    { param },
  )
