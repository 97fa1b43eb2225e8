/** What a request may set only with permission of its key: options, class and priority. */
import { isJsonObject } from '../core/json.ts'
import { Failure } from '../failure.ts'
import { agentHints, HINTS } from '../protocols/agent-hints.ts'
import type { Caller } from './auth/caller.ts'
import { EXTRA_BODY, type Json } from './body/request-limits.ts'
import { type ReadOptions, REQUEST_CLASSES, type RequestOptions } from './body/requested-options.ts'

/** Overrides that affect other clients need permission. `session` has the same effect as its header. */
const PRIVILEGED_OVERRIDES = [
  'target',
  'policy',
  'overlap_weight',
  'temperature',
  'priority',
  'expected_output_tokens',
] as const

/** The options of a request with what its key fixes. Fails with `forbidden`. */
export const permittedOptions =
  (read: ReadOptions): ReadOptions =>
  (source, caller) => {
    const { json, isForm } = source
    const options = read(source, caller)
    if (!isForm) authorizeHints(json, caller)
    authorizeOptions(options, caller)
    authorizePriority(json, caller, isForm)
    return caller.priority === null ? options : { ...options, priority: caller.priority }
  }

/** Fails with `forbidden` and names the override. */
function authorizeOptions(options: RequestOptions, caller: Caller): void {
  if (caller.allowOverrides) return
  authorizeClass(options, caller)
  const refused = PRIVILEGED_OVERRIDES.find((name) => options[name] !== undefined)
  if (refused === undefined) return
  throw new Failure(
    'forbidden',
    `This key may not set firstlight.${refused}. Leave it out, or ask the operator for allow_overrides.`,
    {
      param: `firstlight.${refused}`,
    },
  )
}

/** Dynamo's hints need the permission of the options that they stand for. Fails with `forbidden` and names the hint. */
function authorizeHints(json: Json, caller: Caller): void {
  if (caller.allowOverrides) return
  const hints = agentHints(json)
  const refused = hints === undefined ? undefined : ['priority', 'osl'].find((name) => (hints[name] ?? null) !== null)
  if (refused === undefined) return
  const param = `${HINTS}.${refused}`
  throw new Failure(
    'forbidden',
    `This key may not set ${param}. Leave it out, or ask the operator for allow_overrides.`,
    {
      param,
    },
  )
}

/** Clients may lower the class of their key, never raise it. */
function authorizeClass({ class: requestedClass }: RequestOptions, { requestClass }: Caller): void {
  if (requestedClass === undefined || REQUEST_CLASSES.indexOf(requestedClass) >= REQUEST_CLASSES.indexOf(requestClass))
    return
  throw new Failure(
    'forbidden',
    `This key may not use the class ${requestedClass}: the class of the key is ${requestClass}. Leave ` +
      'firstlight.class out, or ask the operator for another class.',
    { param: 'firstlight.class' },
  )
}

/**
 * Rejects a `priority` that would reach an engine's queue from a key that may not set it. In JSON the key's priority
 * replaces the client's; a form cannot be edited. Fails with `forbidden`.
 */
function authorizePriority(json: Json, caller: Caller, isForm: boolean): void {
  const mayChoose = caller.allowOverrides && caller.priority === null
  if (mayChoose) return
  const isReplaced = caller.priority !== null && !isForm
  if (!isReplaced && Object.hasOwn(json, 'priority')) throw priorityFailure('priority')
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra) && Object.hasOwn(extra, 'priority')) throw priorityFailure(`${EXTRA_BODY}.priority`)
}

const priorityFailure = (param: string): Failure =>
  new Failure(
    'forbidden',
    `This key may not set ${param}. Leave it out, or ask the operator for allow_overrides or a priority of this key.`,
    { param },
  )
