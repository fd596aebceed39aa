CREATE TABLE personal_sweeps ( -- how far work has come that goes through a table in parts
    step     TEXT   PRIMARY KEY,
    position BIGINT NOT NULL, -- the rows up to this id were visited
    began    BIGINT NOT NULL
);
