//! The demonstration's queries, which run while the board changes.

use indicatif::HumanCount;
use thalweg::{Database, Result, Session};

use super::live::{Board, WRITERS};
use super::screen::{Screen, rate};

struct Question {
    text: &'static str,
    sql: &'static str,
}

const QUESTIONS: [Question; 6] = [
    Question {
        text: "Which routes arrive late most?",
        sql: "SELECT f.origin || ' to ' || f.dest AS route, a.name AS airport, \
                count(*) AS flights, round(avg(f.arr_delay)::numeric, 1) AS minutes_late \
            FROM flights f LEFT JOIN airports a ON a.faa = f.dest \
            WHERE f.arr_delay IS NOT NULL \
            GROUP BY f.origin, f.dest, a.name HAVING count(*) >= 300 \
            ORDER BY minutes_late DESC LIMIT 5",
    },
    Question {
        text: "When should one leave?",
        sql: "SELECT hour, count(*) AS flights, round(avg(dep_delay)::numeric, 1) AS minutes_late, \
                repeat('#', round(avg(dep_delay))::int) AS bar \
            FROM flights WHERE dep_delay IS NOT NULL AND hour BETWEEN 6 AND 22 AND hour % 2 = 0 \
            GROUP BY hour ORDER BY hour",
    },
    Question {
        text: "What does the weather do?",
        sql: "SELECT CASE WHEN w.visib < 2 THEN 'fog' WHEN w.precip > 0 THEN 'rain or snow' \
                WHEN w.wind_speed > 20 THEN 'wind' ELSE 'fair' END AS weather, \
                count(*) AS flights, round(avg(f.dep_delay)::numeric, 1) AS minutes_late, \
                round(100.0 * sum(CASE WHEN f.dep_time IS NULL THEN 1 ELSE 0 END) / count(*), 1) \
                    AS percent_cancelled \
            FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour \
            GROUP BY 1 ORDER BY minutes_late DESC",
    },
    Question {
        text: "Who is the most punctual at each airport?",
        sql: "SELECT origin, place, name, minutes_late FROM ( \
                SELECT f.origin, a.name, round(avg(f.arr_delay)::numeric, 1) AS minutes_late, \
                    rank() OVER (PARTITION BY f.origin ORDER BY avg(f.arr_delay)) AS place \
                FROM flights f JOIN airlines a ON a.carrier = f.carrier \
                GROUP BY f.origin, a.name HAVING count(*) >= 500) AS ranked \
            WHERE place <= 2 ORDER BY origin, place",
    },
    Question {
        text: "Are old planes late?",
        sql: "SELECT least((2013 - p.year) / 5 * 5, 25) AS years_old, \
                count(DISTINCT p.tailnum) AS planes, count(*) AS flights, \
                round(avg(f.dep_delay)::numeric, 1) AS minutes_late \
            FROM flights f JOIN planes p ON p.tailnum = f.tailnum \
            WHERE p.year IS NOT NULL AND f.dep_delay IS NOT NULL GROUP BY 1 ORDER BY 1",
    },
    Question {
        text: "And what does the board say now?",
        sql: "SELECT status, count(*) AS flights, sum(changes)::bigint AS changes \
            FROM board GROUP BY status ORDER BY flights DESC, status",
    },
];

/// Runs all queries while writers change the board, and shows the speed of both.
pub async fn ask_all(screen: &Screen, database: &Database, board: &Board) -> Result<()> {
    let mut session = database.session();
    let began = screen.now();
    let writers = board.start(database);
    let (last, questions) = QUESTIONS.split_last().expect("there are questions");
    for question in questions {
        ask(screen, &mut session, question).await?;
    }
    board.wait_for_changes().await;
    ask(screen, &mut session, last).await?;
    writers.stop().await?;
    let (took, changes) = (screen.now() - began, board.acknowledged());
    println!();
    screen.line(&format!(
        "Meanwhile {WRITERS} writers changed the board {} times, {}.",
        HumanCount(changes),
        rate(changes, took),
    ));
    screen.line("Each change was one statement, synced to disk before it was acknowledged.");
    Ok(())
}

async fn ask(screen: &Screen, session: &mut Session, question: &Question) -> Result<()> {
    let asked = screen.now();
    let outcome = session.execute(question.sql).await?;
    let answer = screen.answer(outcome).await?;
    screen.question(question.text, screen.now() - asked);
    screen.table(&answer)
}
