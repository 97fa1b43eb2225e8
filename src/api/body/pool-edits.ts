/** Changes to the body of a request that its pool demands, composed of what the pool has configured. */
import type { RequestClass } from '../../core/contract/admission.ts'
import type { AddableField } from '../../engines/engine-type.ts'
import type { BodyEdit } from '../../origin/body-edit.ts'
import { connectors } from '../../origin/disagg/connectors.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import type { InferenceRequest } from '../inference-request.ts'

/** What a change reads of the request. */
interface EditedRequest {
  readonly inference: InferenceRequest
  /**
   * Prepares what `RequestSource.continuation` returns, once. true: the engine must send token ids.
   * @param priority that the body will have; undefined: the client's
   */
  prepareContinuation(pool: PoolRoute['pool'], priority: string | undefined): boolean
}

/** Returns the edit of a leg with the changes of its pool. undefined: the body stays as the client sent it. */
export type PoolEdit = (request: EditedRequest, legEdit: BodyEdit | undefined) => BodyEdit | undefined

/** Composes the changes of a pool. */
export function editOf({ pool }: Pick<PoolRoute, 'pool'>): PoolEdit {
  let edit: PoolEdit = pool.classPriority ? withClassPriority(ofRequest) : ofRequest
  if (pool.retry.midStream !== 'off') edit = withTokenIds(edit, pool)
  for (const field of connectors[pool.split.connector].fields(pool.split)) edit = withoutField(edit, field)
  return edit
}

const mayAdd = (legEdit: BodyEdit | undefined, field: AddableField): boolean =>
  legEdit?.addable?.includes(field) ?? true

/** vLLM serves lower values first; 0 is its default. */
const CLASS_PRIORITIES: Readonly<Record<RequestClass, number | undefined>> = {
  critical: -1,
  standard: undefined,
  sheddable: 1,
}

/** Priority of the request's options. */
const ofRequest: PoolEdit = ({ inference }, legEdit) => {
  const { body, caller, endpoint, options } = inference
  // If engines have no priority queue, the client's priority is removed and none is added.
  if (!endpoint.salted)
    return caller.priority !== null && Object.hasOwn(body.json, 'priority') ? removing(legEdit, 'priority') : legEdit
  return options.priority === undefined || !mayAdd(legEdit, 'priority')
    ? legEdit
    : withPriority(legEdit, options.priority)
}

/** Priority of the request's class, if neither its options nor its body have one. */
const withClassPriority =
  (next: PoolEdit): PoolEdit =>
  (request, legEdit) => {
    const { body, caller, endpoint, options } = request.inference
    const isSet = options.priority !== undefined || (body.json['priority'] ?? null) !== null
    const priority = isSet ? undefined : CLASS_PRIORITIES[options.class ?? caller.requestClass]
    const edited = next(request, legEdit)
    return priority === undefined || !endpoint.salted || !mayAdd(legEdit, 'priority')
      ? edited
      : withPriority(edited, priority)
  }

/** Token ids in the stream, with which another engine can continue it. */
const withTokenIds =
  (next: PoolEdit, pool: PoolRoute['pool']): PoolEdit =>
  (request, legEdit) => {
    const edited = next(request, legEdit)
    if (!mayAdd(legEdit, 'return_token_ids') || !request.prepareContinuation(pool, edited?.set['priority']))
      return edited
    return setting(edited, { return_token_ids: 'true' })
  }

/** Without a client's own transfer parameters, which could name another client's prefill. NIXL's are always removed. */
const withoutField =
  (next: PoolEdit, field: string): PoolEdit =>
  (request, legEdit) =>
    Object.hasOwn(request.inference.body.json, field) ? removing(next(request, legEdit), field) : next(request, legEdit)

const withPriority = (edit: BodyEdit | undefined, priority: number): BodyEdit =>
  setting(edit, { priority: String(priority) })

/** What the leg sets itself stays. */
const setting = (edit: BodyEdit | undefined, set: BodyEdit['set']): BodyEdit => ({
  ...edit,
  set: { ...set, ...edit?.set },
  remove: edit?.remove ?? [],
})

const removing = (edit: BodyEdit | undefined, field: string): BodyEdit => ({
  ...edit,
  set: edit?.set ?? {},
  remove: [...(edit?.remove ?? []), field],
})
