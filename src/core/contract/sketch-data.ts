/** Plain data: counts from bucket `first` on. */
export interface SketchData {
  readonly zeros: number
  readonly first: number
  readonly counts: readonly number[]
  readonly sum: number
}
