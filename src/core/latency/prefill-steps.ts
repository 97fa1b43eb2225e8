import { PrefillFitter } from './prefill-fitter.ts'
import { type PrefillCostModel, type PrefillSize, costModelSeconds, STEP_TOKENS } from './prefill-cost-model.ts'
import { DEFAULT_PROFILE, profile } from './profiles.ts'

/**
 * Time within which a prompt joins a step that began on an empty queue, milliseconds: the engine ends its decode step
 * first.
 */
export const JOIN_MS = 10
/** Shortest step, milliseconds: first tokens within this time are of one step. */
const MIN_STEP_MS = 3
/** Time within which all first tokens of a step arrive, milliseconds; later ones are of a later step. */
const DELIVERY_MS = 30

/** Cost before the first sample, which rescales it. */
const PRIOR: PrefillCostModel = profile(DEFAULT_PROFILE)!

/** Full steps of one sample. */
const SERIES_STEPS = 4

interface VisiblePrompt extends PrefillSize {
  /** Whether its first token will be seen. */
  readonly isVisible: boolean
}

/** Prompt to prefill. */
interface StepPrompt extends VisiblePrompt {
  /** Whether the engine has other requests. */
  readonly isBusy: boolean
}

/** Booked prompt. Made by `add`, ended by `firstToken` or `abandon`. */
export interface BookedPrompt extends VisiblePrompt {
  /** null: it has ended, and may be kept for as long as its stream. */
  step: Step | null
}

class Load {
  newTokens = 0
  pairs = 0
  prompts = 0

  add({ newTokens, pairs }: PrefillSize, prompts = 1): void {
    this.newTokens += newTokens
    this.pairs += pairs
    this.prompts += prompts
  }

  remove({ newTokens, pairs }: PrefillSize, prompts = 1): void {
    this.add({ newTokens: -newTokens, pairs: -pairs }, -prompts)
  }
}

/** Prompts that the engine prefills together, and that have not ended. */
class Step extends Load {
  /** Those whose first token will be seen. */
  readonly visible = new Load()
  /** Booking of its first prompt, milliseconds. */
  readonly bookedAt: number
  /** Milliseconds; NaN: it has not begun. */
  startedAt = NaN
  /** Whether it began on an empty queue, not at the end of another step. */
  isFirst = false
  /** Whether its time is no sample. */
  isInvalid = false
  isEnded = false
  next: Step | null = null
  /** Step that has taken over its prompts. */
  successor: Step | null = null

  constructor(bookedAt: number) {
    super()
    this.bookedAt = bookedAt
  }

  addPrompt(prompt: VisiblePrompt): void {
    this.add(prompt)
    if (prompt.isVisible) this.visible.add(prompt)
  }

  removePrompt(prompt: VisiblePrompt): void {
    this.remove(prompt)
    if (prompt.isVisible) this.visible.remove(prompt)
  }

  /** Adds the visible prompts of another step. */
  addVisible({ visible }: Step): void {
    this.add(visible, visible.prompts)
    this.visible.add(visible, visible.prompts)
  }
}

/** Consecutive steps that are one sample. */
class Series {
  readonly load = new Load()
  seconds = 0
  steps = 0
  isInvalid = false

  add(load: Load, seconds: number, isInvalid: boolean): void {
    this.load.add(load, load.prompts)
    this.seconds += seconds
    this.steps += 1
    this.isInvalid ||= isInvalid
  }

  get mean(): { readonly newTokens: number; readonly pairs: number; readonly seconds: number } {
    const { load, seconds, steps } = this
    return { newTokens: load.newTokens / steps, pairs: load.pairs / steps, seconds: seconds / steps }
  }
}

/** The latest step that ended. Some of its first tokens may still arrive. */
interface EndedStep {
  readonly step: Step
  readonly at: number
  /** Its prompts whose first token came, and those that have none. */
  readonly load: Load
}

/**
 * Prefill steps of one engine. It prefills the prompts that have arrived together, up to a limit, and sends their first
 * tokens at the end, so a prompt waits for the rest of the present step and then for its whole own step. The cost of a
 * step is learned from the times between first tokens; it includes the decode of the running sequences.
 */
export class PrefillSteps {
  #fitter: PrefillFitter | null = null
  /** Most new tokens of a step with several prompts. */
  #stepTokens = STEP_TOKENS
  /** Step that the engine is at, and the last one that is booked. */
  #running: Step | null = null
  #last: Step | null = null
  /** Prompts of the steps after the running one, and the number of these steps. */
  readonly #waiting = new Load()
  #steps = 0
  #ended: EndedStep | null = null
  /** Steps that are full but for the last one, and their time. */
  #series = new Series()

  /** Seconds until the first token of a further prompt; null: nothing learned yet. */
  seconds(size: PrefillSize, now: number): number | null {
    this.#settle(now)
    if (this.#fitter === null) return null
    const { costModel } = this.#fitter
    const { fixedS } = costModel
    const ownS = costModelSeconds(costModel, size)
    const running = this.#running
    if (running === null) return ownS
    const joined = this.#joinable(size, now)
    const leftS = this.#stepSeconds(running) - (now - running.startedAt) / 1000
    if (joined === running) return Math.max(ownS, leftS + ownS - fixedS)
    // Each waiting step has a fixed part; `costModelSeconds` counts one.
    const waitingS = costModelSeconds(costModel, this.#waiting) + (this.#steps - 1) * fixedS
    const joinedS = joined === null || joined.prompts === 0 ? 0 : fixedS
    return Math.max(0, leftS) + waitingS + ownS - joinedS
  }

  add(prompt: StepPrompt, now: number): BookedPrompt {
    this.#settle(now)
    const step = this.#joinable(prompt, now) ?? this.#append(prompt.isBusy, now)
    if (step !== this.#running) {
      if (step.prompts === 0) this.#steps += 1
      this.#waiting.add(prompt)
    }
    step.addPrompt(prompt)
    const { newTokens, pairs, isVisible } = prompt
    return { newTokens, pairs, isVisible, step }
  }

  firstToken(booked: BookedPrompt, now: number): void {
    this.#settle(now)
    const step = presentStep(booked)
    if (step === null) return
    if (!step.isEnded) {
      // Without a visible first token, `now` is an estimate.
      if (!booked.isVisible) step.isInvalid = true
      // A first token of a later step ends the steps before it, too.
      while (this.#running !== step) this.#end(now)
      this.#end(now)
    }
    presentStep(booked)!.removePrompt(booked)
    booked.step = null
    if (booked.isVisible && this.#ended !== null) this.#ended.load.add(booked)
  }

  /** Records an end without a first token. */
  abandon(booked: BookedPrompt, now: number): void {
    this.#settle(now)
    const step = presentStep(booked)
    if (step === null) return
    step.removePrompt(booked)
    booked.step = null
    if (step.isEnded) return
    if (step === this.#running) {
      step.isInvalid = true
      if (step.prompts === 0) this.#advance(now)
    } else {
      this.#waiting.remove(booked)
      if (step.prompts === 0) this.#steps -= 1
    }
  }

  /** Step that a further prompt would be in; null: a new one. */
  #joinable(size: PrefillSize, now: number): Step | null {
    const last = this.#last
    if (last === null) return null
    if (last.prompts > 0 && last.newTokens + size.newTokens > this.#stepTokens) return null
    return last !== this.#running || (last.isFirst && now - last.startedAt <= JOIN_MS) ? last : null
  }

  #append(isBusy: boolean, now: number): Step {
    const step = new Step(now)
    if (this.#last !== null) this.#last.next = step
    this.#last = step
    if (this.#running === null) {
      this.#running = step
      step.startedAt = now
      step.isFirst = true
      step.isInvalid = !isBusy
    }
    return step
  }

  /** Completes the ended step when all its first tokens should have arrived, and ends steps without visible ones. */
  #settle(now: number): void {
    if (this.#ended !== null && now - this.#ended.at > DELIVERY_MS) this.#complete()
    for (let step = this.#running; step !== null && step.visible.prompts === 0; step = this.#running) {
      const endsAt = step.startedAt + 1000 * this.#stepSeconds(step)
      if (now < endsAt) return
      step.isInvalid = true
      this.#end(endsAt)
    }
  }

  /**
   * Learns from the ended step. Its prompts without a first token are in the running one. A full step also holds part
   * of a prompt that gets its first token later, so only the mean of several is a sample.
   */
  #complete(): void {
    const { step, at, load } = this.#ended!
    this.#ended = null
    const isFull = this.#running !== null && this.#running.bookedAt <= step.startedAt
    if (step.visible.prompts > 0) this.#takeOver(step, at)
    else if (load.prompts > 1 && !step.isInvalid) this.#stepTokens = Math.max(this.#stepTokens, load.newTokens)
    const series = this.#series
    series.add(load, (at - step.startedAt) / 1000, step.isInvalid)
    if (isFull && series.steps < SERIES_STEPS) return
    this.#series = new Series()
    const sample = series.mean
    if (series.isInvalid || sample.seconds * 1000 <= MIN_STEP_MS) return
    this.#fitter ??= new PrefillFitter(PRIOR)
    this.#fitter.learn({ ...sample, at })
  }

  /** Moves prompts of an ended step that still wait to the running one. */
  #takeOver(step: Step, endedAt: number): void {
    const running = this.#running ?? this.#append(true, endedAt)
    running.isFirst = false
    running.addVisible(step)
    step.successor = running
  }

  /** Ends the running step; its prompts without a visible first token have ended, too. */
  #end(now: number): void {
    const step = this.#running!
    const before = this.#ended
    const isSame = before !== null && !step.isFirst && now - step.startedAt <= MIN_STEP_MS
    if (before !== null && !isSame) this.#complete()
    step.isEnded = true
    this.#advance(isSame ? before.at : now)
    if (!isSame) this.#ended = { step, at: now, load: new Load() }
    const { load } = this.#ended!
    load.add(step, step.prompts)
    load.remove(step.visible, step.visible.prompts)
    if (!isSame) return
    before.step.addVisible(step)
    before.step.isInvalid ||= step.isInvalid
    step.successor = before.step
  }

  #advance(now: number): void {
    const ended = this.#running!
    let { next } = ended
    ended.next = null
    while (next !== null && next.prompts === 0) next = next.next
    this.#running = next
    if (next === null) this.#last = null
    else {
      this.#waiting.remove(next, next.prompts)
      this.#steps -= 1
      next.startedAt = now
    }
  }

  #stepSeconds(step: Step): number {
    return costModelSeconds(this.#fitter?.costModel ?? PRIOR, step)
  }
}

/** Step in which the prompt is now; null: it has ended. Those without a visible first token end with their step. */
function presentStep({ isVisible, step }: BookedPrompt): Step | null {
  if (!isVisible) return step
  let found = step
  while (found !== null && found.successor !== null) found = found.successor
  return found
}
