/** Sum of KiB over all threads of a process. */
export interface KibCount {
  add(kib: number): void
  total(): number
}
