/** Everybody who counts, as one: metrics for machines and activity for the console. There before the engine is. */
import type { Clock } from '../engine/ambient.ts';
import type { EngineObserver } from '../engine/observer.ts';
import type { FinishedRequest } from '../http/handler.ts';
import { Activity } from './console/activity.ts';
import { RelayMetrics } from './metrics.ts';

export class Watch {
  readonly metrics: RelayMetrics;
  readonly activity: Activity;
  readonly observer: EngineObserver;

  constructor(version: string, clock: Clock) {
    const metrics = new RelayMetrics(version);
    const activity = new Activity(clock);
    this.metrics = metrics;
    this.activity = activity;
    this.observer = {
      pushed: (outcomes) => {
        metrics.pushed(outcomes);
        activity.pushed(outcomes);
      },
      unread: (rejection, count) => {
        metrics.unread(rejection, count);
        activity.unread(rejection, count);
      },
      pulled: (target, through) => activity.pulled(target, through),
      committed: (batch) => {
        metrics.committed(batch);
        activity.committed(batch);
      },
    };
  }

  finished(request: FinishedRequest): void {
    this.metrics.finished(request);
    this.activity.finished(request);
  }
}
