export declare const servingFlags: readonly string[]
